//! A page that is walked through: its fences are files, edits and commands, done in their order as a reader
//! would do them, and what a command prints must be what stands behind it.
//!
//! - `file=PATH`, in any language: the file is written.
//! - `diff file=PATH`: the lines with a space or `-` stand in the file once; those with a space or `+` take
//!   their place.
//! - `toml mapping=PATH`: lines of a mapping, put where a reader puts them; see [`laid_in`].
//! - `json properties=PATH`: properties that the JSON Schema describes besides; `false` takes one away.
//! - `sh`: run. The fence behind it, `text` or `json`, is all that it prints; without one it prints nothing.
//! - `sh eventually`: run again until it prints that.
//! - `sh dev`: started, and left running; the fence behind it is what it prints by itself. `text dev`: lines
//!   that it prints sooner or later.
//! - `text`, `json`: shown behind a command only.
//!
//! Times, random ids and ports differ from run to run, and are not compared. `UPDATE_GOLDENS=1` writes what
//! commands print into the page.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use super::broken::updating;
use super::docs::markdown::{Fence, Page};
use super::source::{root, text};

/// As long as anything may take on a slow machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// The ports that a page names.
const PORTS: [&str; 2] = ["8080", "8001"];

/// A folder that a page is walked through in.
pub(crate) struct Walk {
    pub(crate) folder: PathBuf,
    dev: Option<Dev>,
    /// What stands in the page, by the line of its fence, and what it should be.
    pub(crate) wrong: Vec<Wrong>,
}

pub(crate) struct Wrong {
    pub(crate) line: usize,
    shown: String,
    found: String,
}

/// `mapwright dev` in the background.
struct Dev {
    child: Child,
    /// Where REST and the Kubernetes API are.
    ports: [String; 2],
    /// How much of its output has been shown.
    read: usize,
}

impl Walk {
    pub(crate) fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("mapwright-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        Self { folder, dev: None, wrong: Vec::new() }
    }

    /// Does what the fences say, in their order.
    pub(crate) fn follow(&mut self, page: &str, fences: &[Fence]) {
        let mut after = false;
        for (index, fence) in fences.iter().enumerate() {
            let place = format!("{page}:{}", fence.line);
            let shown = fences.get(index + 1).filter(|next| is_output(next));
            match (fence.language.as_str(), fence.value("file"), fence.value("mapping")) {
                ("diff", Some(file), _) => self.edit(file, &fence.text, &place),
                (_, Some(file), _) => self.write(file, &fence.text),
                ("json", ..) if fence.value("properties").is_some() => self.describe(fence),
                ("toml", _, Some(file)) => self.write(file, &laid_in(&self.read(file), &fence.text)),
                ("sh", ..) if fence.is("dev") => self.start(&fence.text, shown, &place),
                ("sh", ..) => self.run(fence, shown),
                ("text", ..) if fence.is("dev") => self.listen(fence),
                _ => assert!(after, "{place}: a fence that is no file, no edit and no output of a command"),
            }
            after = fence.language == "sh";
        }
    }

    pub(crate) fn write(&self, file: &str, text: &str) {
        let path = self.folder.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.folder.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
    }

    fn edit(&self, file: &str, diff: &str, place: &str) {
        let side = |sign: char| {
            let lines = diff.lines().filter(|line| line.is_empty() || line.starts_with([' ', sign]));
            lines.map(|line| line.get(1..).unwrap_or_default().to_owned() + "\n").collect::<String>()
        };
        let (before, after, text) = (side('-'), side('+'), self.read(file));
        let count = text.matches(&before).count();
        assert_eq!(count, 1, "{place}: the lines to change stand in {file} {count} times\n{text}");
        self.write(file, &text.replacen(&before, &after, 1));
    }

    fn describe(&self, fence: &Fence) {
        let file = fence.value("properties").unwrap();
        let own: Map<String, Value> = serde_json::from_str(&fence.text).unwrap();
        let mut schema: Value = serde_json::from_str(&self.read(file)).unwrap();
        let properties = schema["properties"].as_object_mut().unwrap();
        for (name, described) in own {
            match described {
                Value::Bool(false) => drop(properties.shift_remove(&name)),
                described => drop(properties.insert(name, described)),
            }
        }
        self.write(file, &format!("{schema:#}\n"));
    }

    fn run(&mut self, fence: &Fence, shown: Option<&Fence>) {
        let begin = Instant::now();
        let expected = shown.map(|shown| told(shown, &shown.text)).unwrap_or_default();
        loop {
            let printed = self.printed(&fence.text);
            let same = shown.map_or(printed.clone(), |shown| told(shown, &printed)) == expected;
            if !same && fence.is("eventually") && begin.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(100));
                continue;
            }
            if !same {
                let (line, shown) = shown.map_or((fence.line, ""), |shown| (shown.line, &shown.text));
                self.wrong.push(Wrong { line, shown: shown.to_owned(), found: pretty(&printed) });
            }
            return;
        }
    }

    /// Everything that a command prints, as a terminal shows it.
    pub(crate) fn printed(&self, command: &str) -> String {
        let mut command = command.to_owned();
        for (named, real) in PORTS.iter().zip(self.dev.iter().flat_map(|dev| &dev.ports)) {
            command = command.replace(&format!("localhost:{named}"), &format!("127.0.0.1:{real}"));
        }
        let output = self.shell(&format!("exec 2>&1\n{command}")).output().unwrap();
        String::from_utf8(output.stdout).unwrap().replace('\r', "")
    }

    /// With the product's own binary as `mapwright`.
    fn shell(&self, command: &str) -> Command {
        let binary = Path::new(env!("CARGO_BIN_EXE_mapwright")).parent().unwrap();
        let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
        let mut shell = Command::new("sh");
        shell.current_dir(&self.folder).env("PATH", path).env("NO_COLOR", "1").args(["-c", command]);
        shell
    }

    fn start(&mut self, command: &str, shown: Option<&Fence>, place: &str) {
        let mut command = command.trim().to_owned();
        for port in PORTS {
            command = command.replace(&format!("port {port}"), "port 0");
        }
        let mut shell = self.shell(&format!("exec {command} > .dev.out 2>&1"));
        let child = shell.stdin(Stdio::null()).spawn().unwrap();
        self.dev = Some(Dev { child, ports: Default::default(), read: 0 });
        let last = "Status events, as they happen:\n\n";
        let printed = self.until(|printed| printed.contains(last));
        let port = |text: &str| -> String {
            let rest = text.split_once("//127.0.0.1:").expect(place).1;
            rest.chars().take_while(char::is_ascii_digit).collect()
        };
        let ports = [port(&printed), port(&self.read("dev.kubeconfig"))];
        let dev = self.dev.as_mut().unwrap();
        (dev.ports, dev.read) = (ports, printed.len());
        let shown = shown.unwrap_or_else(|| panic!("{place}: what does it print?"));
        let printed = self.as_shown(&printed);
        if steady(&printed) != steady(&shown.text) {
            self.wrong.push(Wrong { line: shown.line, shown: shown.text.clone(), found: printed });
        }
    }

    /// What `dev` prints sooner or later. A status that passed quickly may have been told before it.
    fn listen(&mut self, fence: &Fence) {
        let read = self.dev.as_ref().unwrap().read;
        let expected = steady(&fence.text);
        let printed = self.until(|printed| steady(&printed[read..]).contains(&expected));
        self.dev.as_mut().unwrap().read = printed.len();
    }

    fn until(&mut self, done: impl Fn(&str) -> bool) -> String {
        let begin = Instant::now();
        loop {
            let printed = fs::read_to_string(self.folder.join(".dev.out")).unwrap_or_default();
            let ended = self.dev.as_mut().unwrap().child.try_wait().unwrap();
            if printed.ends_with('\n') && done(&printed) {
                return printed;
            }
            assert!(ended.is_none() && begin.elapsed() < PATIENCE, "dev ({ended:?}) says:\n{printed}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// With the ports that the page names.
    fn as_shown(&self, printed: &str) -> String {
        let ports = &self.dev.as_ref().unwrap().ports;
        let mut text = printed.to_owned();
        for (named, real) in PORTS.iter().zip(ports) {
            text = text.replace(&format!("127.0.0.1:{real}"), &format!("127.0.0.1:{named}"));
        }
        text
    }
}

impl Drop for Walk {
    fn drop(&mut self) {
        if let Some(dev) = &mut self.dev {
            let _ = dev.child.kill();
            let _ = dev.child.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn is_output(fence: &Fence) -> bool {
    matches!(fence.language.as_str(), "text" | "json") && fence.words.is_empty()
}

/// What is compared of an output: JSON as a value, anything else as it is.
fn told(shown: &Fence, printed: &str) -> String {
    match (shown.language.as_str(), serde_json::from_str::<Value>(printed)) {
        ("json", Ok(value)) => steady(&value.to_string()),
        _ => steady(printed),
    }
}

fn pretty(printed: &str) -> String {
    match serde_json::from_str::<Value>(printed) {
        Ok(value) => format!("{value:#}\n"),
        Err(_) => printed.to_owned(),
    }
}

/// With what differs from run to run made the same: times, random ids, milliseconds.
fn steady(text: &str) -> String {
    const TIME: &str = "0000-00-00T00:00:00";
    const UUID: &str = "hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh";
    let fits = |text: &str, form: &str| {
        let mut both = text.chars().zip(form.chars());
        text.len() >= form.len()
            && text.is_char_boundary(form.len())
            && both.all(|(c, form)| match form {
                '0' => c.is_ascii_digit(),
                'h' => c.is_ascii_hexdigit(),
                form => c == form,
            })
    };
    let mut out = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if fits(rest, TIME) {
            rest = rest[TIME.len()..].trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
            out.push_str("<time>");
        } else if fits(rest, UUID) {
            rest = &rest[UUID.len()..];
            out.push_str("<id>");
        } else if let Some(after) = rest.strip_prefix("ready in ") {
            rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
            out.push_str("ready in <time>");
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    out
}

/// Lines of a mapping, put where a reader puts them. A key of the top level takes the place of the same key; a
/// `[status]` takes the place of the whole status table, which stands last; everything else comes before it.
fn laid_in(mapping: &str, lines: &str) -> String {
    let (mut head, status) = mapping.split_once("[status]").expect("the status table stands last");
    let (own, own_status) = lines.split_once("[status]").unwrap_or((lines, status));
    let mut keys = String::new();
    let tables = own.find('[').filter(|at| *at == 0).or_else(|| own.find("\n[").map(|at| at + 1));
    let (own_keys, own_tables) = own.split_at(tables.unwrap_or(own.len()));
    let name = |line: &str| line.split_once('=').map(|(name, _)| name.trim().to_owned());
    let taken: Vec<Option<String>> = own_keys.lines().map(name).filter(Option::is_some).collect();
    let first_table = head.find("\n[").map_or(head.len(), |at| at + 1);
    for line in head[..first_table].lines().filter(|line| !taken.contains(&name(line))) {
        keys.push_str(line);
        keys.push('\n');
    }
    head = &head[first_table..];
    format!("{}\n{own_keys}\n{head}{own_tables}\n[status]{own_status}", keys.trim_end())
}

/// Everything that is wrong with a page, told; or the page put right.
pub(crate) fn settle(page: &str, wrong: Vec<Wrong>) {
    if !updating() {
        let told = wrong.iter().map(|wrong| {
            format!(
                "{page}:{}: the page shows\n{}\nthe command prints\n{}",
                wrong.line, wrong.shown, wrong.found
            )
        });
        let told: Vec<String> = told.collect();
        assert!(told.is_empty(), "{}", told.join("\n"));
        return;
    }
    let page_text = text(page);
    let mut lines: Vec<String> = page_text.lines().map(str::to_owned).collect();
    for wrong in wrong.iter().rev().filter(|wrong| !wrong.shown.is_empty()) {
        let from = wrong.line;
        lines.splice(from..from + wrong.shown.lines().count(), wrong.found.lines().map(str::to_owned));
    }
    fs::write(root().join(page), lines.join("\n") + "\n").unwrap();
}

/// The fences of a page.
pub(crate) fn page(name: &str) -> Page {
    Page::parse(name, &text(name))
}

#[test]
fn what_differs_from_run_to_run_is_not_compared_and_all_else_is() {
    assert_eq!(steady("at 2026-01-02T03:04:05.678Z, ready in 12 ms"), "at <time>Z, ready in <time> ms");
    assert_eq!(steady("x 3f6a9a7f-b34a-5cd8-bda6-bddd5ce16fe8"), "x <id>");
    assert_eq!(steady("2026-01-02, 8080, 3f6a9a7f"), "2026-01-02, 8080, 3f6a9a7f");
}

#[test]
fn a_page_that_is_not_true_is_caught() {
    let walked = |text: &str| {
        let page = Page::parse("docs/x.md", text);
        let mut walk = Walk::new("walk");
        walk.follow("docs/x.md", &page.fences);
        walk.wrong.iter().map(|wrong| wrong.line).collect::<Vec<_>>()
    };
    assert_eq!(walked("```sh\necho a\n```\n```text\na\n```\n"), [0; 0]);
    assert_eq!(walked("```sh\necho a\n```\n```text\nb\n```\n"), [4]);
    assert_eq!(walked("```sh\necho a\n```\n"), [1]);
    assert_eq!(walked("```sh\necho '{\"a\":1}'\n```\n```json\n{ \"a\": 1 }\n```\n"), [0; 0]);
    assert_eq!(
        walked(
            "```text file=a\nx\ny\n```\n```diff file=a\n-x\n+z\n y\n```\n```sh\ncat a\n```\n```text\nz\ny\n```\n"
        ),
        [0; 0]
    );
}

#[test]
fn lines_of_a_mapping_are_put_where_they_belong() {
    let mapping = "a = 1\nb = 2\n\n[[object]]\nname = \"x\"\n\n[status]\nold = 1\n";
    let laid = |lines: &str| toml::from_str::<toml::Table>(&laid_in(mapping, lines)).unwrap();
    let found = laid("b = 3\n\n[[object]]\nname = \"y\"\n");
    assert_eq!((found["a"].as_integer(), found["b"].as_integer()), (Some(1), Some(3)));
    assert_eq!(found["object"].as_array().unwrap().len(), 2);
    assert_eq!(laid("[status]\nnew = 1\n")["status"].as_table().unwrap().keys().collect::<Vec<_>>(), ["new"]);
}
