//! Where the ledger outlives the process: a JetStream key-value bucket, else files in a state directory.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::jetstream::kv::{self, CreateErrorKind, Operation, UpdateErrorKind};
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use tokio::time::timeout;

use super::{Bus, BusError, BusErrorKind, Capture, Nats};

/// Bytes by key, kept beyond the life of the process. Its `Display` names the place, for log and health.
#[derive(Clone)]
pub enum LedgerStore {
    /// Shared by all replicas.
    Bucket { store: Arc<kv::Store>, deadline: Duration },
    /// For one replica only.
    Directory(PathBuf),
    /// Without NATS nothing outlives the process.
    Memory(Arc<Mutex<BTreeMap<String, Bytes>>>),
}

/// A value and the revision under which it may be replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    pub value: Bytes,
    pub revision: u64,
}

/// A key that [`encode`] never makes.
const PROBE: &str = "_probe";
/// Files count no revisions: one process writes them.
const FILE_REVISION: u64 = 1;

// === impl LedgerStore ===

impl LedgerStore {
    /// The bucket where the server has JetStream and allows it, else a directory of the same name under
    /// `state`. An error means that it cannot be told yet: ask again once the bus is up.
    pub async fn open(bus: &Bus, bucket: &str, state: &Path) -> Result<Self, BusError> {
        let Some(nats) = &bus.nats else {
            return match &bus.kept {
                Some(directory) => Self::in_directory(directory.clone()),
                None => Ok(Self::Memory(Arc::default())),
            };
        };
        Self::open_by(nats, bucket, state).await
    }

    async fn open_by(bus: &Nats, bucket: &str, state: &Path) -> Result<Self, BusError> {
        bus.require_link("open the ledger")?;
        match bus.capture(&format!("$KV.{bucket}.>")).await? {
            Capture::NoJetStream | Capture::Unknown => return Self::in_directory(state.join(bucket)),
            Capture::Stream | Capture::NoStream => {}
        }
        match timeout(bus.deadline, open_bucket(bus, bucket)).await {
            Ok(Ok(store)) => Ok(Self::Bucket { store: Arc::new(store), deadline: bus.deadline }),
            _ if bus.lacks_right_to("$JS.API") || bus.lacks_right_to("$KV") => {
                Self::in_directory(state.join(bucket))
            }
            Ok(Err(detail)) => {
                let what = format!("cannot open the bucket `{bucket}`: {detail}");
                Err(BusError::new(BusErrorKind::Refused, what))
            }
            Err(_) => {
                let what = format!("cannot open the bucket `{bucket}` in time");
                Err(BusError::new(BusErrorKind::TimedOut, what))
            }
        }
    }

    /// A store of files, one a key.
    pub fn in_directory(directory: PathBuf) -> Result<Self, BusError> {
        fs::create_dir_all(&directory).map_err(|error| storage("create", &directory, error))?;
        Ok(Self::Directory(directory))
    }

    /// Whether several replicas may rely on it.
    pub fn is_shared(&self) -> bool {
        matches!(self, Self::Bucket { .. })
    }

    /// Everything that is kept under keys that begin so.
    pub async fn load_all(&self, prefix: &str) -> Result<BTreeMap<String, Stored>, BusError> {
        match self {
            Self::Bucket { store, deadline } => load_bucket(store, *deadline, prefix).await,
            Self::Directory(directory) => {
                let directory = directory.clone();
                let mut kept = off_the_runtime(move || load_directory(&directory)).await?;
                kept.retain(|key, _| key.starts_with(prefix));
                Ok(kept)
            }
            Self::Memory(kept) => {
                let kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                let stored = |value: &Bytes| Stored { value: value.clone(), revision: FILE_REVISION };
                let meant = kept.iter().filter(|(key, _)| key.starts_with(prefix));
                Ok(meant.map(|(key, value)| (key.clone(), stored(value))).collect())
            }
        }
    }

    /// Every write from now on: the key, and the value unless it was removed. A directory has no other
    /// writer, and so nothing to follow.
    pub async fn follow(&self) -> Result<BoxStream<'static, (String, Option<Bytes>)>, BusError> {
        let Self::Bucket { store, deadline } = self else { return Ok(futures::stream::pending().boxed()) };
        let entries = within(*deadline, "follow", store, store.watch_with_history(">")).await?;
        // A broken stream ends; whoever follows opens it again.
        let whole = entries.take_while(|entry| std::future::ready(entry.is_ok()));
        let told = whole.filter_map(|entry| {
            let told = entry.ok().and_then(|entry| {
                let value = (entry.operation == Operation::Put).then_some(entry.value);
                decode(&entry.key).map(|key| (key, value))
            });
            std::future::ready(told)
        });
        Ok(told.boxed())
    }

    /// Writes a value over the given revision, or where there is none yet. [`BusErrorKind::Conflict`] means
    /// that another replica was first: load again.
    pub async fn put(&self, key: &str, value: Bytes, over: Option<u64>) -> Result<u64, BusError> {
        let name = encode(key);
        match self {
            Self::Bucket { store, deadline } => put_in_bucket(store, *deadline, &name, value, over).await,
            Self::Directory(directory) => {
                let directory = directory.clone();
                off_the_runtime(move || write_file(&directory, &name, &value)).await
            }
            Self::Memory(kept) => {
                kept.lock().unwrap_or_else(PoisonError::into_inner).insert(key.to_owned(), value);
                Ok(FILE_REVISION)
            }
        }
    }

    /// Removes a key without a trace, so that ids which came and went do not pile up.
    pub async fn delete(&self, key: &str) -> Result<(), BusError> {
        let name = encode(key);
        match self {
            Self::Bucket { store, deadline } => {
                let purging = store.stream.purge().filter(format!("$KV.{}.{name}", store.name));
                within(*deadline, "delete from", store, async move { purging.await }).await.map(|_| ())
            }
            Self::Directory(directory) => {
                let directory = directory.clone();
                off_the_runtime(move || remove_file(&directory, &name)).await
            }
            Self::Memory(kept) => {
                kept.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
                Ok(())
            }
        }
    }
}

impl fmt::Display for LedgerStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bucket { store, .. } => write!(formatter, "JetStream key-value bucket `{}`", store.name),
            Self::Directory(directory) => write!(formatter, "files in {}", directory.display()),
            Self::Memory(_) => formatter.write_str("the memory of this process"),
        }
    }
}

// === the bucket ===

const READS_AT_ONCE: usize = 64;

fn bucket_config(bucket: &str) -> kv::Config {
    kv::Config {
        bucket: bucket.to_owned(),
        description: "What was last delivered for each instance".to_owned(),
        history: 1,
        ..kv::Config::default()
    }
}

/// Opens the bucket, making it where it is missing, and proves that it can be written and swept.
async fn open_bucket(bus: &Nats, bucket: &str) -> Result<kv::Store, String> {
    let store = match bus.jetstream.get_key_value(bucket).await {
        Ok(store) => store,
        // Two replicas may come to this at once; making the same bucket twice is no error.
        Err(_) => {
            let made = bus.jetstream.create_key_value(bucket_config(bucket)).await;
            made.map_err(|error| error.to_string())?
        }
    };
    store.put(PROBE, Bytes::new()).await.map_err(|error| error.to_string())?;
    let sweep = store.stream.purge().filter(format!("$KV.{bucket}.{PROBE}"));
    sweep.await.map_err(|error| error.to_string())?;
    Ok(store)
}

/// Reads entry by entry. A watch would be one call; but while others write, the server may say too early that
/// it has come to the end, and what is missed here is said again.
async fn load_bucket(
    store: &kv::Store,
    deadline: Duration,
    prefix: &str,
) -> Result<BTreeMap<String, Stored>, BusError> {
    let within_bucket = format!("$KV.{}.", store.name);
    let subjects = store.stream.info_with_subjects(format!("{within_bucket}>"));
    let mut subjects = within(deadline, "read", store, subjects).await?;
    let mut keys = Vec::new();
    // The deadline is for each page: a large bucket may take as long as it takes.
    while let Some((subject, _)) = within(deadline, "read", store, subjects.try_next()).await? {
        let name = subject.strip_prefix(&within_bucket).unwrap_or_default();
        keys.extend(decode(name).filter(|key| key.starts_with(prefix)));
    }
    let reads = futures::stream::iter(keys).map(async |key| {
        let entry = within(deadline, "read", store, store.entry(encode(&key))).await?;
        let entry = entry.filter(|entry| entry.operation == Operation::Put);
        Ok(entry.map(|entry| (key, Stored { value: entry.value, revision: entry.revision })))
    });
    let kept: Vec<Option<_>> = reads.buffer_unordered(READS_AT_ONCE).try_collect().await?;
    Ok(kept.into_iter().flatten().collect())
}

async fn put_in_bucket(
    store: &kv::Store,
    deadline: Duration,
    name: &str,
    value: Bytes,
    over: Option<u64>,
) -> Result<u64, BusError> {
    let conflict = || {
        let what =
            format!("`{name}` in bucket `{}` was written by another replica; load it again", store.name);
        BusError::new(BusErrorKind::Conflict, what)
    };
    let writing = async {
        match over {
            None => store.create(name, value).await.map_err(|error| match error.kind() {
                CreateErrorKind::AlreadyExists => conflict(),
                _ => bucket_error("write to", store, error),
            }),
            Some(revision) => store.update(name, value, revision).await.map_err(|error| match error.kind() {
                UpdateErrorKind::WrongLastRevision => conflict(),
                _ => bucket_error("write to", store, error),
            }),
        }
    };
    timeout(deadline, writing).await.unwrap_or_else(|_| Err(too_slow("write to", store)))
}

async fn within<T, E: std::error::Error + Send + Sync + 'static>(
    deadline: Duration,
    verb: &str,
    store: &kv::Store,
    call: impl Future<Output = Result<T, E>>,
) -> Result<T, BusError> {
    match timeout(deadline, call).await {
        Ok(answer) => answer.map_err(|error| bucket_error(verb, store, error)),
        Err(_) => Err(too_slow(verb, store)),
    }
}

fn bucket_error(
    verb: &str,
    store: &kv::Store,
    error: impl std::error::Error + Send + Sync + 'static,
) -> BusError {
    BusError::new(BusErrorKind::Refused, format!("cannot {verb} the bucket `{}`", store.name)).because(error)
}

fn too_slow(verb: &str, store: &kv::Store) -> BusError {
    BusError::new(BusErrorKind::TimedOut, format!("cannot {verb} the bucket `{}` in time", store.name))
}

// === the directory ===

fn load_directory(directory: &Path) -> Result<BTreeMap<String, Stored>, BusError> {
    let mut kept = BTreeMap::new();
    for entry in fs::read_dir(directory).map_err(|error| storage("read", directory, error))? {
        let path = entry.map_err(|error| storage("read", directory, error))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(SUFFIX));
        // A half-written file has another name, and is no entry.
        let Some(key) = name.and_then(decode) else {
            continue;
        };
        let value = fs::read(&path).map_err(|error| storage("read", &path, error))?;
        kept.insert(key, Stored { value: value.into(), revision: FILE_REVISION });
    }
    Ok(kept)
}

/// Writes beside, makes it last, and renames: a reader sees the old bytes or the new ones, never a mixture.
fn write_file(directory: &Path, name: &str, value: &[u8]) -> Result<u64, BusError> {
    let path = directory.join(format!("{name}{SUFFIX}"));
    let beside = directory.join(format!("{name}.new"));
    let write = || -> io::Result<()> {
        let mut file = File::create(&beside)?;
        file.write_all(value)?;
        file.sync_all()?;
        fs::rename(&beside, &path)?;
        File::open(directory)?.sync_all()
    };
    write().map_err(|error| storage("write", &path, error))?;
    Ok(FILE_REVISION)
}

fn remove_file(directory: &Path, name: &str) -> Result<(), BusError> {
    let path = directory.join(format!("{name}{SUFFIX}"));
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(storage("remove", &path, error)),
        _ => Ok(()),
    }
}

const SUFFIX: &str = ".json";

async fn off_the_runtime<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BusError> + Send + 'static,
) -> Result<T, BusError> {
    let joined = tokio::task::spawn_blocking(work).await;
    joined.unwrap_or_else(|error| {
        Err(BusError::new(BusErrorKind::Storage, "the ledger's file work was cut short").because(error))
    })
}

fn storage(verb: &str, path: &Path, error: io::Error) -> BusError {
    let what = format!(
        "cannot {verb} {}: set SP_STATE_DIRECTORY to a directory that can be written",
        path.display()
    );
    BusError::new(BusErrorKind::Storage, what).because(error)
}

// === keys ===

/// Letters, digits and hyphens stay; every other byte becomes `_` and two hexadecimal digits. The result is
/// a valid key of a bucket and a valid file name, and no two keys share it.
fn encode(key: &str) -> String {
    let mut name = String::with_capacity(key.len());
    for byte in key.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' => name.push(char::from(byte)),
            _ => name.push_str(&format!("_{byte:02x}")),
        }
    }
    name
}

/// Undoes [`encode`]; none for a name that it cannot have made.
fn decode(name: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'_' => {
                let digits = [rest.next()?, rest.next()?];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
            }
            b'.' => return None,
            _ => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).ok()
}
