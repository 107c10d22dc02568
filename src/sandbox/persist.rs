//! Objects that outlive the process: all of them in one file, a line each, which is written anew after changes.
//!
//! The file is whole at every moment, for it is written beside and renamed. What was written to the cluster in
//! the last moment before a process is killed may be missing from it; an orderly end misses nothing.

use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::sleep;

use super::admit;
use super::api::Api;
use super::object::text;
use super::store::{Storage, Stored};

/// A directory that keeps a cluster, held by this process alone.
pub struct Kept {
    file: PathBuf,
    _lock: File,
    /// What the file held; none where there was no file yet.
    found: Option<Found>,
}

struct Found {
    version: u64,
    objects: Vec<Line>,
}

/// The first line.
#[derive(Serialize, Deserialize)]
struct Head {
    format: String,
    version: u64,
}

/// Each other line.
#[derive(Deserialize)]
struct Line {
    storage: String,
    object: Value,
}

/// What a file holds, as the store has it.
pub(super) struct Snapshot {
    pub(super) version: u64,
    pub(super) objects: Vec<(Storage, Arc<Stored>)>,
}

const FORMAT: &str = "mapwright-sandbox/v1";
const FILE: &str = "cluster.jsonl";

/// How far versions jump at a start: beyond all that a process may have given before it was killed, so that no
/// client ever sees one twice.
const JUMP: u64 = 1_000_000;

/// How long changes are collected; writing never takes more than a tenth of the time.
const COLLECT: Duration = Duration::from_millis(100);
const SHARE: u32 = 10;

impl Kept {
    /// Reads what a directory keeps, and makes it where it is missing.
    ///
    /// # Errors
    /// When it cannot be written, is damaged, or belongs to another process.
    pub fn open(directory: &Path) -> Result<Self, String> {
        let cannot = |verb: &str, path: &Path, error: io::Error| {
            format!("cannot {verb} {}: {error}; choose another --persist", path.display())
        };
        fs::create_dir_all(directory).map_err(|error| cannot("make", directory, error))?;
        let path = directory.join("lock");
        let lock = File::create(&path).map_err(|error| cannot("write", &path, error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let directory = directory.display();
                return Err(format!(
                    "another process keeps its cluster in {directory}; choose another --persist"
                ));
            }
            Err(TryLockError::Error(error)) => return Err(cannot("lock", &path, error)),
        }
        let file = directory.join(FILE);
        let found = match fs::read_to_string(&file) {
            Ok(text) => Some(parse(&file, &text)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(cannot("read", &file, error)),
        };
        Ok(Self { file, _lock: lock, found })
    }

    /// Puts what was kept back, and says whether there was anything.
    pub(super) fn restore(&mut self, api: &Api) -> bool {
        let Some(Found { version, mut objects }) = self.found.take() else { return false };
        // They say which other kinds there are.
        objects.sort_by_key(|line| line.object["kind"] != "CustomResourceDefinition");
        let mut store = api.store();
        store.begin_at(version + JUMP);
        for Line { storage, object } in objects {
            if let Some(kind) = api.kinds.by_kind(text(&object, "/apiVersion"), text(&object, "/kind")) {
                admit::after_write(api, &kind, None, &object);
            }
            store.restore(&storage.into(), &object);
        }
        true
    }

    /// Writes after changes; never ends by itself.
    pub(super) async fn follow(&self, api: &Api) {
        let mut written = 0;
        let mut told = false;
        let mut pause = COLLECT;
        loop {
            sleep(pause).await;
            if api.store().version() == written {
                continue;
            }
            let began = Instant::now();
            let snapshot = api.store().snapshot();
            let version = snapshot.version;
            match self.write(snapshot).await {
                Ok(()) => (written, told) = (version, false),
                Err(error) if !told => {
                    tracing::error!(file = %self.file.display(), %error, "the cluster is not kept");
                    told = true;
                }
                Err(_) => {}
            }
            pause = COLLECT.max(began.elapsed() * SHARE);
        }
    }

    /// Writes what there is at the end.
    pub(super) async fn end(&self, api: &Api) {
        let snapshot = api.store().snapshot();
        if let Err(error) = self.write(snapshot).await {
            tracing::error!(file = %self.file.display(), %error, "the cluster is not kept");
        }
    }

    async fn write(&self, snapshot: Snapshot) -> io::Result<()> {
        let file = self.file.clone();
        let written = tokio::task::spawn_blocking(move || write(&file, &snapshot));
        written.await.unwrap_or_else(|error| Err(io::Error::other(error)))
    }
}

fn parse(file: &Path, text: &str) -> Result<Found, String> {
    let damaged = |number: usize, what: String| {
        format!(
            "{}:{number}: {what}; it is no file of a kept cluster: move it away, or choose another --persist",
            file.display()
        )
    };
    let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    let head = lines.next().map(|(_, line)| serde_json::from_str::<Head>(line));
    let version = match head {
        Some(Ok(head)) if head.format == FORMAT => head.version,
        Some(Ok(head)) => {
            return Err(damaged(1, format!("the format is `{}` and not `{FORMAT}`", head.format)));
        }
        Some(Err(error)) => return Err(damaged(1, error.to_string())),
        None => return Err(damaged(1, "the file is empty".to_owned())),
    };
    let read =
        |(number, line)| serde_json::from_str(line).map_err(|error| damaged(number, error.to_string()));
    Ok(Found { version, objects: lines.map(read).collect::<Result<_, _>>()? })
}

/// Writes beside, makes it last, and renames.
fn write(file: &Path, snapshot: &Snapshot) -> io::Result<()> {
    let beside = file.with_extension("new");
    let mut out = BufWriter::new(File::create(&beside)?);
    let head = Head { format: FORMAT.to_owned(), version: snapshot.version };
    serde_json::to_writer(&mut out, &head)?;
    out.write_all(b"\n")?;
    for (storage, object) in &snapshot.objects {
        write!(out, "{{\"storage\":{},\"object\":", Value::from(&**storage))?;
        out.write_all(&object.text.unpack())?;
        out.write_all(b"}\n")?;
    }
    out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    fs::rename(&beside, file)?;
    file.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
}

/// What a sandbox does beside serving, where it is kept.
pub(super) async fn keep(kept: &Kept, api: &Arc<Api>, serving: impl Future<Output = ()>) {
    tokio::select! {
        () = serving => {}
        () = kept.follow(api) => {}
    }
    kept.end(api).await;
}
