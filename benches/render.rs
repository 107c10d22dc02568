//! Rendering a spec to objects, beside minijinja rendering the same templates as text and a YAML parse.
//!
//! Both ways run in turns within one process, so that a busy machine slows both; the ratio is the median of the
//! turns' own.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for people: its figures go to standard output"
)]

use std::collections::BTreeMap;
use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use mapwright_engine::inputs::{Identity, Inputs};
use mapwright_engine::kinds::Kinds;
use mapwright_engine::service::{Files, Service};
use serde_json::{Value, json};

/// The program's own.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const ROUNDS: usize = 60;
const RENDERINGS: u32 = 200;

fn main() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let service = Service::load(&files(&root)?, "container", &Kinds::default())
        .map_err(|findings| findings.to_string())?;
    let identity =
        Identity { id: "web".into(), provider: "bench".into(), namespace: "default".into(), life: 1 };
    let mut inputs = Inputs { spec: spec(), ..Inputs::default() };
    inputs.settings.insert("external_service_type".into(), "LoadBalancer".into());
    let texts = text_templates(&service, &identity.id);

    let mut tree = Vec::new();
    let mut text = Vec::new();
    for _ in 0..ROUNDS {
        tree.push(time(|| {
            black_box(service.render(black_box(&identity), black_box(&inputs), 0)?);
            Ok(())
        })?);
        text.push(time(|| {
            black_box(render_text(&texts, black_box(&inputs))?);
            Ok(())
        })?);
    }
    let mut ratios: Vec<f64> =
        tree.iter().zip(&text).map(|(tree, text)| text.as_secs_f64() / tree.as_secs_f64()).collect();
    ratios.sort_unstable_by(f64::total_cmp);
    let (tree, text) = (median(&mut tree), median(&mut text));
    println!("objects from trees:        {:>8.1} us", micros(tree));
    println!("objects from text and YAML: {:>7.1} us", micros(text));
    println!("ratio:                     {:>8.1}", ratios[ratios.len() / 2]);
    process(&root)
}

/// `mapwright render` from its start to its end, where the program was built for release before.
fn process(root: &Path) -> Result<()> {
    let program = root.join("target/release/mapwright");
    if !program.is_file() {
        println!("render as a process:       not measured; cargo build --release builds it");
        return Ok(());
    }
    let file = std::env::temp_dir().join(format!("mapwright-bench-{}.json", std::process::id()));
    std::fs::write(&file, spec().to_string())?;
    let mut times = Vec::new();
    for _ in 0..20 {
        let start = Instant::now();
        let output = Command::new(&program)
            .current_dir(root)
            .args(["render", "container", "--setting", "external_service_type=LoadBalancer"])
            .arg(&file)
            .output()?;
        times.push(start.elapsed());
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into());
        }
    }
    std::fs::remove_file(&file)?;
    println!("render as a process:       {:>8.1} ms", micros(median(&mut times)) / 1e3);
    Ok(())
}

fn time(mut work: impl FnMut() -> Result<()>) -> Result<Duration> {
    let start = Instant::now();
    for _ in 0..RENDERINGS {
        work()?;
    }
    Ok(start.elapsed() / RENDERINGS)
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn files(root: &Path) -> Result<Files> {
    let mut files = BTreeMap::new();
    for folder in ["schemas", "mappings/container"] {
        for entry in std::fs::read_dir(root.join(folder))? {
            let entry = entry?;
            if entry.path().is_file() {
                let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
                files.insert(name, std::fs::read_to_string(entry.path())?);
            }
        }
    }
    Ok(files)
}

/// Everything that a container's spec can hold.
fn spec() -> Value {
    json!({
        "service_type": "container",
        "metadata": { "name": "web-app", "labels": { "app": "web", "tier": "front" } },
        "image": { "reference": "registry.example/web:1.27" },
        "resources": { "cpu": { "min": 1, "max": 2 }, "memory": { "min": "1GB", "max": "2GB" } },
        "process": {
            "command": ["/bin/web"],
            "args": ["--port", "8080"],
            "env": [
                { "name": "MODE", "value": "production" },
                { "name": "LEVEL", "value": "info" },
                { "name": "ANSWER", "value": "42" },
            ],
        },
        "network": { "ports": [
            { "container_port": 8080, "visibility": "external" },
            { "container_port": 9090, "visibility": "internal" },
        ] },
    })
}

struct TextTemplates {
    env: minijinja::Environment<'static>,
    labels: Value,
}

/// The same two objects as text templates of the usual kind, compiled once.
fn text_templates(service: &Service, id: &str) -> TextTemplates {
    let mut env = minijinja::Environment::new();
    env.add_filter("binary_unit", |text: String| text.replace("GB", "Gi").replace("MB", "Mi"));
    for (name, text) in [("deployment", DEPLOYMENT), ("service", SERVICE)] {
        if let Err(error) = env.add_template(name, text) {
            eprintln!("{error}");
        }
    }
    TextTemplates { env, labels: Value::Object(service.labels(id)) }
}

fn render_text(templates: &TextTemplates, inputs: &Inputs) -> Result<Vec<Value>> {
    let context = minijinja::context! {
        spec => minijinja::value::Serde(&inputs.spec),
        labels => minijinja::value::Serde(&templates.labels),
        kind => "LoadBalancer",
    };
    let mut objects = Vec::new();
    for name in ["deployment", "service"] {
        let text = templates.env.get_template(name)?.render(&context)?;
        objects.push(serde_yaml::from_str(&text)?);
    }
    Ok(objects)
}

const DEPLOYMENT: &str = r#"apiVersion: apps/v1
kind: Deployment
metadata:
  namespace: default
  generateName: "{{ spec.metadata.name }}-"
  labels:
{%- for key, value in spec.metadata.labels | items %}
    {{ key }}: "{{ value }}"
{%- endfor %}
{%- for key, value in labels | items %}
    {{ key }}: "{{ value }}"
{%- endfor %}
  annotations:
    mapwright.dcm.project/provider: bench
    mapwright.dcm.project/life: "1"
    mapwright.dcm.project/object: deployment
spec:
  replicas: 1
  selector:
    matchLabels:
{%- for key, value in labels | items %}
      {{ key }}: "{{ value }}"
{%- endfor %}
  template:
    metadata:
      labels:
{%- for key, value in spec.metadata.labels | items %}
        {{ key }}: "{{ value }}"
{%- endfor %}
{%- for key, value in labels | items %}
        {{ key }}: "{{ value }}"
{%- endfor %}
    spec:
      containers:
        - name: "{{ spec.metadata.name }}"
          image: "{{ spec.image.reference }}"
          command:
{%- for part in spec.process.command %}
            - "{{ part }}"
{%- endfor %}
          args:
{%- for part in spec.process.args %}
            - "{{ part }}"
{%- endfor %}
          env:
{%- for variable in spec.process.env %}
            - name: "{{ variable.name }}"
              value: "{{ variable.value }}"
{%- endfor %}
          resources:
            requests:
              cpu: {{ spec.resources.cpu.min }}
              memory: "{{ spec.resources.memory.min | binary_unit }}"
            limits:
              cpu: {{ spec.resources.cpu.max }}
              memory: "{{ spec.resources.memory.max | binary_unit }}"
          ports:
{%- for port in spec.network.ports %}
            - containerPort: {{ port.container_port }}
{%- endfor %}
"#;

const SERVICE: &str = r#"apiVersion: v1
kind: Service
metadata:
  namespace: default
  generateName: "{{ spec.metadata.name }}-"
  labels:
{%- for key, value in spec.metadata.labels | items %}
    {{ key }}: "{{ value }}"
{%- endfor %}
{%- for key, value in labels | items %}
    {{ key }}: "{{ value }}"
{%- endfor %}
  annotations:
    mapwright.dcm.project/provider: bench
    mapwright.dcm.project/life: "1"
    mapwright.dcm.project/object: service
spec:
  type: {{ kind }}
  selector:
{%- for key, value in labels | items %}
    {{ key }}: "{{ value }}"
{%- endfor %}
  ports:
{%- for port in spec.network.ports if port.visibility != "none" %}
    - name: "port-{{ port.container_port }}"
      port: {{ port.container_port }}
      targetPort: {{ port.container_port }}
      protocol: TCP
{%- endfor %}
"#;
