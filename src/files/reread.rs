//! What is made of files, and made anew when they change: certificates, lists of tokens.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::change::Look;

/// Something that files say. What they say wrongly leaves in use what they said before.
pub struct Reread<T> {
    files: Vec<PathBuf>,
    make: Box<dyn Fn() -> Result<T, String> + Send + Sync>,
    current: RwLock<Arc<T>>,
    seen: Mutex<Look>,
    standing: Mutex<Standing>,
}

/// How often the files were taken and refused, and what is wrong with them now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    pub taken: u64,
    pub refused: u64,
    /// Set while the files are not what is in use.
    pub complaint: Option<String>,
}

impl<T> Reread<T> {
    /// Makes it for the first time.
    ///
    /// # Errors
    /// What is wrong with the files.
    pub fn open(
        files: Vec<PathBuf>,
        make: impl Fn() -> Result<T, String> + Send + Sync + 'static,
    ) -> Result<Self, String> {
        // Before they are read, so that what is written meanwhile is a change.
        let seen = Look::at(&files);
        let current = RwLock::new(Arc::new(make()?));
        let standing = Mutex::default();
        Ok(Self { files, make: Box::new(make), current, seen: Mutex::new(seen), standing })
    }

    pub fn current(&self) -> Arc<T> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn standing(&self) -> Standing {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Looks at the files, and makes it anew where they are others.
    pub fn look(&self) {
        let now = Look::at(&self.files);
        if now == *self.seen.lock().unwrap_or_else(PoisonError::into_inner) {
            return;
        }
        let made = (self.make)();
        if now != Look::at(&self.files) {
            // They were swapped while they were read, so half of them may be old: the next look tells.
            return;
        }
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = now;
        let mut standing = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        match made {
            Ok(made) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(made);
                standing.taken += 1;
                standing.complaint = None;
                tracing::info!(files = ?self.files, "read again and taken into use");
            }
            Err(why) => {
                standing.refused += 1;
                tracing::error!(%why, "changed files are refused; what was read before stays in use");
                standing.complaint = Some(why);
            }
        }
    }
}
