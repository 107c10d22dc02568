//! The files of a mapping root as one whole: read at one moment, checked, and told apart by a digest.
//!
//! A process that starts takes what compiles. One that serves already has something to lose, so what replaces
//! the revision in use must stand all that `mapwright check` asks.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::engine::diagnostic::Findings;
use crate::engine::kinds::Kinds;
use crate::engine::names::fingerprint;
use crate::engine::prove::{Proof, prove};
use crate::engine::service::{Files, Service};
use crate::files::{MappingRoot, Unreadable};
use crate::kinds;
use crate::metrics::{Exposition, Kind::Counter, Kind::Gauge};

/// Everything that is in a root.
#[derive(Clone, Debug)]
pub struct Revision {
    /// Of the names and texts of all files.
    pub digest: String,
    files: Files,
    types: Vec<String>,
}

/// Why a revision is not taken into use.
#[derive(Clone, Debug)]
pub enum Unfit {
    Mappings(Findings),
    UnknownType {
        name: String,
        known: Vec<String>,
    },
    /// Neither the mappings alone nor a reader of files can tell: settings that are missing, for one.
    Other(String),
}

/// How the revisions of this process stand, for health, screen and metrics.
#[derive(Clone, Debug, Default)]
pub struct Revisions {
    pub in_use: String,
    /// How many were taken into use after the first one.
    pub taken: u64,
    /// How many were refused.
    pub refusals: u64,
    /// The last one, if it was refused.
    pub refused: Option<Arc<Refused>>,
    /// One that is sound, and whose watches have not read the cluster yet.
    pub waiting: Option<Waiting>,
}

/// A sound revision that is about to be taken into use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub revision: String,
    /// Why a watch does not come to a complete list, where that is known.
    pub why: Option<String>,
}

/// A revision that is not taken into use.
#[derive(Clone, Debug)]
pub struct Refused {
    /// None where the files could not be read.
    pub revision: Option<String>,
    pub why: Unfit,
}

/// Characters of a digest that are shown.
const DIGEST: usize = 12;

impl Revision {
    pub fn read(root: &Path) -> Result<Self, Unreadable> {
        let root = MappingRoot::at(root);
        let (files, types) = (root.read()?, root.types()?);
        let parts: Vec<&str> = files.iter().flat_map(|(name, text)| [name.as_str(), text.as_str()]).collect();
        let digest = fingerprint(&parts)[..DIGEST].to_owned();
        Ok(Self { digest, files, types })
    }

    /// The mappings of these types, compiled; of all types where none is named.
    pub fn compile(&self, wanted: &[String]) -> Result<Vec<Arc<Service>>, Unfit> {
        self.compiled(wanted).map(|(services, _)| services)
    }

    /// The same, after everything that `mapwright check` asks of them.
    pub fn check(&self, wanted: &[String]) -> Result<Vec<Arc<Service>>, Unfit> {
        let (services, kinds) = self.compiled(wanted)?;
        let mut findings = Findings::default();
        for service in &services {
            findings.append(proof(service, &self.files, &kinds).findings);
        }
        if findings.is_empty() { Ok(services) } else { Err(Unfit::Mappings(findings)) }
    }

    fn compiled(&self, wanted: &[String]) -> Result<(Vec<Arc<Service>>, Kinds), Unfit> {
        let wanted = if wanted.is_empty() { &self.types } else { wanted };
        let mut findings = Findings::default();
        let kinds = kinds::of(&self.files, &mut findings);
        let mut services = Vec::new();
        for name in wanted {
            if !self.types.contains(name) {
                return Err(Unfit::UnknownType { name: name.clone(), known: self.types.clone() });
            }
            match Service::load(&self.files, name, &kinds) {
                Ok(service) => services.push(Arc::new(service)),
                Err(found) => findings.append(found),
            }
        }
        if findings.is_empty() { Ok((services, kinds)) } else { Err(Unfit::Mappings(findings)) }
    }
}

/// All that is asked of a mapping that compiles, by `mapwright check` and of a revision.
pub fn proof(service: &Service, files: &Files, kinds: &Kinds) -> Proof {
    let mut proof = prove(service, files, kinds);
    proof.findings.append(service.unread_inputs());
    proof
}

impl Revisions {
    pub fn figures(&self, page: &mut Exposition) {
        let revision = [("revision", self.in_use.as_str())];
        page.family("mapwright_mapping_revision_info", Gauge, "The revision of the mappings that serves.")
            .figure(&revision, 1);
        page.family(
            "mapwright_mapping_revisions_taken_total",
            Counter,
            "Revisions taken into use while serving.",
        )
        .figure(&[], self.taken);
        page.family("mapwright_mapping_revisions_refused_total", Counter, "Revisions that were refused.")
            .figure(&[], self.refusals);
        page.family("mapwright_mapping_refused", Gauge, "1 while the files are a revision that is refused.")
            .figure(&[], u8::from(self.refused.is_some()));
    }

    /// What health says of them.
    #[must_use]
    pub fn health(&self) -> Value {
        let mut health = Map::new();
        health.insert("revision".to_owned(), self.in_use.clone().into());
        if let Some(refused) = &self.refused {
            let Refused { revision, why } = &**refused;
            health.insert("refused".to_owned(), json!({ "revision": revision, "diagnostic": why.first() }));
        }
        if let Some(Waiting { revision, why }) = &self.waiting {
            health.insert("waiting".to_owned(), json!({ "revision": revision, "why": why }));
        }
        Value::Object(health)
    }
}

impl Unfit {
    /// The first thing that is wrong, in one line.
    #[must_use]
    pub fn first(&self) -> String {
        match self {
            Self::Mappings(findings) => findings.iter().next().map_or_else(String::new, |first| {
                let (at, more) = (&first.position, findings.len() - 1);
                let more = if more == 0 { String::new() } else { format!(" (and {more} more)") };
                format!("{}:{}:{}: {}{more}", first.file, at.line, at.column, first.message)
            }),
            other => other.to_string().lines().next().unwrap_or_default().to_owned(),
        }
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mappings(findings) => findings.fmt(f),
            Self::UnknownType { name, known } => {
                write!(f, "there is no mapping for `{name}`; there are: {}", known.join(", "))
            }
            Self::Other(text) => f.write_str(text),
        }
    }
}
