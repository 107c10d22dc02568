//! The kinds of Kubernetes as data: what each is called in a path, and the JSON Schema of its objects.
//!
//! The definitions lie in a pack (see `schemas/kubernetes`), of which only the packages that a mapping needs
//! are inflated. CustomResourceDefinitions of the mapping root come on top. Without a pack nothing is known,
//! and nothing is checked.

mod assemble;
mod custom;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use jsonschema::{PatternOptions, Validator};
use miniz_oxide::inflate::decompress_to_vec_zlib;
use serde::Deserialize;
use serde_json::Value as Json;

use crate::diagnostic::{Findings, nearest};
use crate::read::read;
use crate::schema::{SchemaFault, faults_of};
use crate::service::{Files, KindRef};
use crate::source::Source;

/// Every kind that is known, and its schema. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Kinds {
    rows: Arc<BTreeMap<KindRef, KindRow>>,
    /// The definitions of CustomResourceDefinitions.
    custom: Arc<BTreeMap<String, Json>>,
    /// Those CustomResourceDefinitions whole, for a cluster in memory.
    documents: Arc<Vec<Json>>,
    pack: Option<Arc<Pack>>,
    schemas: Arc<Mutex<HashMap<KindRef, Arc<Json>>>>,
    validators: Arc<Mutex<HashMap<KindRef, Arc<Validator>>>>,
}

/// What discovery says of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KindRow {
    /// The segment of its path.
    pub plural: String,
    /// Whether its objects live in a namespace.
    pub namespaced: bool,
    pub verbs: Vec<String>,
    /// What stands below an object: `status`, `scale`, `log`.
    pub subresources: Vec<String>,
    /// The names that kubectl takes for it.
    pub short: Vec<String>,
    /// The name of its definition.
    schema: String,
}

/// The file of definitions: an index, and packages that are inflated when first asked for.
#[derive(Debug)]
struct Pack {
    version: String,
    bytes: &'static [u8],
    packages: BTreeMap<String, Package>,
    additions: BTreeMap<String, Json>,
}

#[derive(Debug)]
struct Package {
    offset: usize,
    length: usize,
    definitions: OnceLock<BTreeMap<String, Json>>,
}

/// The first line of a pack.
#[derive(Deserialize)]
struct Index {
    version: String,
    kinds: BTreeMap<String, BTreeMap<String, KindRow>>,
    packages: BTreeMap<String, (usize, usize)>,
}

impl Kinds {
    /// Reads a pack, and the file of additions to its definitions.
    pub fn read(bytes: &'static [u8], additions: &Source) -> Result<Self, String> {
        let end = bytes.iter().position(|byte| *byte == b'\n').ok_or("the pack of kinds has no index")?;
        let (index, bytes) = (&bytes[..end], &bytes[end + 1..]);
        let index: Index =
            serde_json::from_slice(index).map_err(|error| format!("the pack of kinds: {error}"))?;
        let mut findings = Findings::default();
        let additions = read(additions, &mut findings).map(|tree| tree.to_json());
        let Some(Json::Object(additions)) = additions.filter(|_| findings.is_empty()) else {
            return Err(format!("the additions to the kinds are not a map\n{findings}"));
        };
        let packages = index
            .packages
            .into_iter()
            .map(|(name, (offset, length))| (name, Package { offset, length, definitions: OnceLock::new() }));
        let pack = Pack {
            version: index.version,
            bytes,
            packages: packages.collect(),
            additions: additions.into_iter().collect(),
        };
        let rows = index.kinds.into_iter().flat_map(|(api_version, kinds)| {
            kinds
                .into_iter()
                .map(move |(kind, row)| (KindRef { api_version: api_version.clone(), kind }, row))
        });
        Ok(Self { rows: Arc::new(rows.collect()), pack: Some(Arc::new(pack)), ..Self::default() })
    }

    /// These kinds and those that `schemas/crds/` of a mapping root defines.
    pub fn with_custom(&self, files: &Files, findings: &mut Findings) -> Self {
        let found = custom::read_all(files, findings);
        if found.is_empty() {
            return self.clone();
        }
        let (mut rows, mut custom) = ((*self.rows).clone(), (*self.custom).clone());
        let mut documents = Vec::new();
        for definition in found {
            // One document may define several versions, which follow each other.
            if documents.last() != Some(&definition.document) {
                documents.push(definition.document);
            }
            custom.insert(definition.row.schema.clone(), definition.schema);
            rows.insert(definition.kind, definition.row);
        }
        // The caches start anew: a CustomResourceDefinition may replace a kind.
        Self {
            rows: Arc::new(rows),
            custom: Arc::new(custom),
            documents: Arc::new(documents),
            pack: self.pack.clone(),
            ..Self::default()
        }
    }

    /// The CustomResourceDefinitions of the mapping root, as they were written.
    pub fn documents(&self) -> Arc<Vec<Json>> {
        self.documents.clone()
    }

    /// Whether there are none, so that nothing can be checked.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The version of the server that described them, such as `v1.36.1`.
    pub fn version(&self) -> Option<&str> {
        self.pack.as_ref().map(|pack| pack.version.as_str())
    }

    pub fn iter(&self) -> impl Iterator<Item = (&KindRef, &KindRow)> {
        self.rows.iter()
    }

    pub fn get(&self, kind: &KindRef) -> Option<&KindRow> {
        self.rows.get(kind)
    }

    /// The JSON Schema of a kind's objects, complete in itself. It is as strict as the API server is with
    /// `fieldValidation=Strict`: a member that the schema does not name is a fault.
    pub fn schema(&self, kind: &KindRef) -> Option<Arc<Json>> {
        let row = self.rows.get(kind)?;
        let mut schemas = self.schemas.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(schema) = schemas.get(kind) {
            return Some(schema.clone());
        }
        let schema = Arc::new(assemble::assemble(&row.schema, |name| self.definition(name)));
        schemas.insert(kind.clone(), schema.clone());
        Some(schema)
    }

    /// Everything that the API server's own schema refuses in an object. Nothing where the kind is not known.
    pub fn faults(&self, kind: &KindRef, object: &Json) -> Vec<SchemaFault> {
        self.validator(kind).map(|validator| faults_of(&validator, object)).unwrap_or_default()
    }

    fn validator(&self, kind: &KindRef) -> Option<Arc<Validator>> {
        let schema = self.schema(kind)?;
        let mut validators = self.validators.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(validator) = validators.get(kind) {
            return Some(validator.clone());
        }
        let options = jsonschema::options().with_pattern_options(PatternOptions::regex()).offline();
        let validator = Arc::new(options.build(&schema).ok()?);
        validators.insert(kind.clone(), validator.clone());
        Some(validator)
    }

    /// The kind that was probably meant: the same name elsewhere, or a like name, at best of the same group.
    pub fn nearest(&self, wrong: &KindRef) -> Option<&KindRef> {
        let name = nearest(&wrong.kind, self.rows.keys().map(|kind| kind.kind.as_str()))?;
        let named = self.rows.keys().filter(|kind| kind.kind == name);
        named.min_by_key(|kind| {
            let group = |text: &str| text.split_once('/').map(|(group, _)| group.to_owned());
            let same = kind.api_version == wrong.api_version;
            (!same, group(&kind.api_version) != group(&wrong.api_version))
        })
    }

    fn definition(&self, name: &str) -> Option<Json> {
        match self.custom.get(name) {
            Some(definition) => Some(definition.clone()),
            None => self.pack.as_ref()?.definition(name),
        }
    }
}

impl Pack {
    /// A definition with what the additions say of it.
    fn definition(&self, name: &str) -> Option<Json> {
        let package = self.packages.get(name.rsplit_once('.')?.0)?;
        let mut definition = package.definitions.get_or_init(|| self.inflate(package)).get(name)?.clone();
        for (pattern, addition) in &self.additions {
            let meant = match pattern.strip_prefix('*') {
                Some(ending) => name.ends_with(ending),
                None => name == pattern,
            };
            if meant {
                assemble::add(&mut definition, addition);
            }
        }
        Some(definition)
    }

    /// A package that does not inflate is empty, and its kinds fail the test that reads every kind.
    fn inflate(&self, package: &Package) -> BTreeMap<String, Json> {
        let bytes = self.bytes.get(package.offset..package.offset + package.length).unwrap_or_default();
        let text = decompress_to_vec_zlib(bytes).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }
}

impl KindRow {
    pub(crate) fn new(plural: &str, namespaced: bool, schema: String) -> Self {
        let verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
        Self {
            plural: plural.to_owned(),
            namespaced,
            verbs: verbs.map(str::to_owned).to_vec(),
            subresources: Vec::new(),
            short: Vec::new(),
            schema,
        }
    }
}

impl std::fmt::Display for KindRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {}", self.kind, self.api_version)
    }
}
