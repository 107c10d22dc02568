//! A plan of faults as a file: what happens to which request, event or message.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::failure::{Context, Result};

/// What goes wrong during one run of the script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// A sentence for people.
    pub name: String,
    pub faults: Vec<Fault>,
}

/// One fault. Places are counted over restarts: the second `POST deployments` is the second one that the
/// proxy sees in the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// `POST deployments` and the other writes, `LIST pods`, `WATCH pods`, `EVENT pods`, `PUBLISH`, `LEDGER`.
    pub at: String,
    /// The first is 1.
    pub nth: usize,
    #[serde(rename = "do")]
    pub act: Act,
}

/// What happens there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Act {
    /// The provider is killed and started again; the request has no effect, the event or message is lost.
    KillBefore,
    /// The request takes effect (the event is seen, the message sent), then the provider is killed.
    KillAfter,
    /// The connection closes and the request has no effect.
    Reset,
    /// The request takes effect, and the connection closes without an answer.
    CutReply,
    /// Nothing comes back, and nobody hangs up.
    BlackHole,
    /// It goes on after so many milliseconds.
    Delay(u64),
    /// This status in place of an answer, so many times.
    Answer { status: u16, times: usize },
    /// Before a deletion arrives, somebody else's object takes the place of the one that is meant.
    Swap,
    /// Before an object is made, somebody else makes one of its name.
    Squat,
    /// An event waits until the next one of its object has come, and only that is seen.
    Coalesce,
    /// The watch ends with 410 in place of the event, and old versions are forgotten.
    Gone,
    /// Watches are answered with a plain 410 until there is a list.
    Expired,
    /// The oldest list that was served from the same place is served again.
    Stale,
    /// The message arrives, its acknowledgement does not.
    SwallowAck,
}

impl Plan {
    pub fn new(name: impl Into<String>, faults: Vec<Fault>) -> Self {
        Self { name: name.into(), faults }
    }

    /// The run without faults.
    pub fn none() -> Self {
        Self::new("nothing goes wrong", Vec::new())
    }

    pub fn read(file: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(file).context(file.display())?;
        serde_json::from_str(&text).context(file.display())
    }

    /// Writes it into a folder, and says where.
    pub fn write(&self, folder: &Path) -> Result<std::path::PathBuf> {
        std::fs::create_dir_all(folder).context(folder.display())?;
        let word = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        let file = folder.join(format!("{}.json", self.name.chars().map(word).collect::<String>()));
        std::fs::write(&file, format!("{:#}\n", serde_json::to_value(self)?)).context(file.display())?;
        Ok(file)
    }
}

impl Fault {
    pub fn new(at: impl Into<String>, nth: usize, act: Act) -> Self {
        Self { at: at.into(), nth, act }
    }
}
