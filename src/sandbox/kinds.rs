//! Which kinds there are and what their objects look like: the real API server's own description, as data.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use miniz_oxide::inflate::decompress_to_vec_zlib;
use serde::Deserialize;
use serde_json::{Value, json};

use super::object::{list, text};

/// A kind as paths and manifests name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    /// Empty for the first group of all.
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
    pub(super) plural: String,
    pub(super) namespaced: bool,
    pub(super) verbs: Vec<String>,
    pub(super) subresources: Vec<String>,
    pub(super) short: Vec<String>,
    /// The name of its definition.
    schema: String,
    /// Whether a CustomResourceDefinition made it.
    pub(super) custom: bool,
}

/// All kinds that are served now.
pub(super) struct Kinds {
    rows: RwLock<Vec<Arc<Kind>>>,
    packages: Arc<BTreeMap<String, Package>>,
    /// The definitions of CustomResourceDefinitions.
    custom: RwLock<HashMap<String, Arc<Value>>>,
    pub(super) version: String,
}

/// Definitions that are inflated when first asked for.
struct Package {
    bytes: &'static [u8],
    definitions: OnceLock<HashMap<String, Arc<Value>>>,
}

#[derive(Deserialize)]
struct Index {
    version: String,
    kinds: BTreeMap<String, BTreeMap<String, Row>>,
    packages: BTreeMap<String, (usize, usize)>,
}

#[derive(Deserialize)]
struct Row {
    plural: String,
    namespaced: bool,
    verbs: Vec<String>,
    subresources: Vec<String>,
    short: Vec<String>,
    schema: String,
}

static PACK: &[u8] = include_bytes!("../../schemas/kubernetes/types.pack");

/// Second names of what another group version stores already: objects are not converted here.
const LEFT_OUT: [&str; 2] = ["events.k8s.io/v1", "autoscaling/v1"];

/// A CustomResourceDefinition may name this many versions, and there may be this many kinds.
const MOST_KINDS: usize = 2000;

impl Kinds {
    /// The kinds of the pack; what is inflated of it is shared by all clusters of the process.
    ///
    /// # Errors
    /// When the pack in the binary is damaged.
    pub(super) fn new() -> Result<Self, String> {
        static PACKED: OnceLock<Result<Kinds, String>> = OnceLock::new();
        let packed = PACKED.get_or_init(Self::unpack).as_ref().map_err(String::clone)?;
        Ok(Self {
            rows: RwLock::new(packed.all()),
            packages: packed.packages.clone(),
            custom: RwLock::default(),
            version: packed.version.clone(),
        })
    }

    fn unpack() -> Result<Self, String> {
        let end = PACK.iter().position(|byte| *byte == b'\n').ok_or("the pack of kinds has no index")?;
        let index: Index =
            serde_json::from_slice(&PACK[..end]).map_err(|error| format!("the pack of kinds: {error}"))?;
        let packed = &PACK[end + 1..];
        let packages = index.packages.into_iter().map(|(name, (offset, length))| {
            let bytes = packed.get(offset..offset + length).unwrap_or_default();
            (name, Package { bytes, definitions: OnceLock::new() })
        });
        let rows = index.kinds.into_iter().filter(|(api, _)| !LEFT_OUT.contains(&api.as_str())).flat_map(
            |(api_version, kinds)| {
                kinds.into_iter().map(move |(kind, row)| Arc::new(Kind::of_row(&api_version, kind, row)))
            },
        );
        Ok(Self {
            rows: RwLock::new(rows.collect()),
            packages: Arc::new(packages.collect()),
            custom: RwLock::default(),
            version: index.version,
        })
    }

    pub(super) fn all(&self) -> Vec<Arc<Kind>> {
        self.rows.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn by_path(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Kind>> {
        let rows = self.rows.read().unwrap_or_else(PoisonError::into_inner);
        rows.iter().find(|k| k.plural == plural && k.group == group && k.version == version).cloned()
    }

    pub(super) fn by_kind(&self, api_version: &str, kind: &str) -> Option<Arc<Kind>> {
        let rows = self.rows.read().unwrap_or_else(PoisonError::into_inner);
        rows.iter().find(|k| k.kind == kind && k.api_version() == api_version).cloned()
    }

    /// What a definition says; None for one that nobody made.
    pub(super) fn definition(&self, name: &str) -> Option<Arc<Value>> {
        if let Some(package) = name.rsplit_once('.').and_then(|(package, _)| self.packages.get(package)) {
            return package.definitions.get_or_init(|| package.inflate()).get(name).cloned();
        }
        self.custom.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// The schema of a kind's objects.
    pub(super) fn schema(&self, kind: &Kind) -> Option<Arc<Value>> {
        self.definition(&kind.schema)
    }

    /// Begins to serve what a CustomResourceDefinition defines, in the place of what it defined before.
    pub(super) fn define(&self, definition: &Value) {
        let group = text(definition, "/spec/group");
        let plural = text(definition, "/spec/names/plural");
        self.forget(group, plural);
        let mut rows = self.rows.write().unwrap_or_else(PoisonError::into_inner);
        let mut custom = self.custom.write().unwrap_or_else(PoisonError::into_inner);
        for version in list(definition, "/spec/versions").iter().filter(|v| v["served"] == true) {
            if rows.len() >= MOST_KINDS {
                return;
            }
            let row = Kind::of_custom(definition, version);
            let schema = version.pointer("/schema/openAPIV3Schema").cloned();
            let schema = with_metadata(schema.unwrap_or_else(|| json!({"type": "object"})));
            custom.insert(row.schema.clone(), Arc::new(schema));
            rows.push(Arc::new(row));
        }
    }

    /// Ends serving what a CustomResourceDefinition defined.
    pub(super) fn forget(&self, group: &str, plural: &str) {
        let mut rows = self.rows.write().unwrap_or_else(PoisonError::into_inner);
        let mut custom = self.custom.write().unwrap_or_else(PoisonError::into_inner);
        rows.retain(|row| {
            let gone = row.custom && row.group == group && row.plural == plural;
            if gone {
                custom.remove(&row.schema);
            }
            !gone
        });
    }
}

impl Kind {
    fn of_row(api_version: &str, kind: String, row: Row) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind,
            plural: row.plural,
            namespaced: row.namespaced,
            verbs: row.verbs,
            subresources: row.subresources,
            short: row.short,
            schema: row.schema,
            custom: false,
        }
    }

    fn of_custom(definition: &Value, version: &Value) -> Self {
        let spec = &definition["spec"];
        let (group, name) = (text(spec, "/group"), text(version, "/name"));
        let kind = text(spec, "/names/kind");
        let verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
        let below = version["subresources"].as_object();
        let short = list(spec, "/names/shortNames").iter().filter_map(Value::as_str);
        Self {
            group: group.to_owned(),
            version: name.to_owned(),
            kind: kind.to_owned(),
            plural: text(spec, "/names/plural").to_owned(),
            namespaced: text(spec, "/scope") != "Cluster",
            verbs: verbs.map(str::to_owned).to_vec(),
            subresources: below.map(|below| below.keys().cloned().collect()).unwrap_or_default(),
            short: short.map(str::to_owned).collect(),
            // A slash, which no name of a package has.
            schema: format!("custom/{group}/{name}/{kind}"),
            custom: true,
        }
    }

    /// `apps/v1`, `v1`
    pub(super) fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// `deployments.apps`, as refusals name it.
    pub(super) fn resource_name(&self) -> String {
        self.qualified(&self.plural)
    }

    /// `Deployment.apps`, as refusals of a content name it.
    pub(super) fn kind_name(&self) -> String {
        self.qualified(&self.kind)
    }

    /// The name of its definition.
    pub(super) fn definition(&self) -> &str {
        &self.schema
    }

    fn qualified(&self, name: &str) -> String {
        match self.group.as_str() {
            "" => name.to_owned(),
            group => format!("{name}.{group}"),
        }
    }

    /// Whether this is the kind of that group and name, of whichever version.
    pub(super) fn is(&self, group: &str, kind: &str) -> bool {
        self.group == group && self.kind == kind
    }

    pub(super) fn has(&self, subresource: &str) -> bool {
        self.subresources.iter().any(|known| known == subresource)
    }

    pub(super) fn allows(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }
}

impl Package {
    /// A package that does not inflate has no definitions, and what names them is taken as it comes.
    fn inflate(&self) -> HashMap<String, Arc<Value>> {
        let text = decompress_to_vec_zlib(self.bytes).unwrap_or_default();
        let definitions: HashMap<String, Value> = serde_json::from_slice(&text).unwrap_or_default();
        definitions.into_iter().map(|(name, definition)| (name, Arc::new(definition))).collect()
    }
}

/// What every object has beside what its definition says.
fn with_metadata(mut schema: Value) -> Value {
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.insert("apiVersion".to_owned(), json!({"type": "string"}));
        properties.insert("kind".to_owned(), json!({"type": "string"}));
        let metadata = json!({"$ref": "#/$defs/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"});
        properties.insert("metadata".to_owned(), metadata);
    }
    schema
}
