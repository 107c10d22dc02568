//! The real kubectl on the sandbox: what people do all day.

use std::process::Stdio;

use mapwright_testbed::ground::has_servers;

use super::*;

impl Fixture {
    /// Runs kubectl; its output, once it has succeeded.
    async fn kubectl(&self, input: &str, args: &[&str]) -> String {
        let (ok, text) = self.try_kubectl(input, args).await;
        assert!(ok, "kubectl {args:?}: {text}");
        text
    }

    async fn try_kubectl(&self, input: &str, args: &[&str]) -> (bool, String) {
        use tokio::io::AsyncWriteExt as _;
        let binaries = tokio::task::spawn_blocking(Binaries::find).await.unwrap().unwrap();
        let mut command = tokio::process::Command::new(binaries.kubectl);
        command.env("KUBECONFIG", &self.kubeconfig).env("HOME", self._scratch.path()).args(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).await.unwrap();
        let output = tokio::time::timeout(secs(60), child.wait_with_output()).await.unwrap().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    }
}

const WEB: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: { name: web }
spec:
  selector: { matchLabels: { app: web } }
  template:
    metadata: { labels: { app: web } }
    spec: { containers: [{ name: main, image: "registry.example/web:1" }] }
---
apiVersion: v1
kind: Service
metadata: { name: web }
spec: { type: LoadBalancer, selector: { app: web }, ports: [{ port: 80 }] }
"#;

#[tokio::test]
async fn apply_wait_get_describe_and_delete() {
    if !has_servers() {
        return;
    }
    let fixture = Fixture::start(true).await;
    let applied = fixture.kubectl(WEB, &["apply", "-f", "-"]).await;
    assert_eq!(applied, "deployment.apps/web created\nservice/web created\n");
    let again = fixture.kubectl(WEB, &["apply", "-f", "-"]).await;
    assert_eq!(again, "deployment.apps/web unchanged\nservice/web unchanged\n");
    fixture.kubectl("", &["rollout", "status", "deployment/web", "--timeout=20s"]).await;
    fixture.kubectl("", &["wait", "--for=condition=Ready", "pod", "-l", "app=web", "--timeout=20s"]).await;
    let pods = fixture.kubectl("", &["get", "pods", "--no-headers"]).await;
    let columns: Vec<&str> = pods.split_whitespace().collect();
    assert_eq!(columns[1..4], ["1/1", "Running", "0"], "{pods}");
    let described = fixture.kubectl("", &["describe", "pod", "-l", "app=web"]).await;
    for words in
        ["Controlled By:  ReplicaSet/web-", "Successfully assigned default/web-", "Started container main"]
    {
        assert!(described.contains(words), "{words} in {described}");
    }
    let newer = WEB.replace("web:1", "web:2");
    assert!(fixture.kubectl(&newer, &["apply", "-f", "-"]).await.contains("deployment.apps/web configured"));
    fixture.kubectl("", &["rollout", "status", "deployment/web", "--timeout=30s"]).await;
    fixture.kubectl("", &["rollout", "undo", "deployment/web"]).await;
    let image = ["get", "deployment", "web", "-o", "jsonpath={.spec.template.spec.containers[0].image}"];
    assert_eq!(fixture.kubectl("", &image).await, "registry.example/web:1");
    fixture.kubectl(WEB, &["delete", "-f", "-", "--timeout=20s"]).await;
    let gone = fixture.kubectl("", &["wait", "--for=delete", "pod", "-l", "app=web", "--timeout=20s"]).await;
    assert!(gone.is_empty() || gone.contains("condition met"), "{gone}");
}

#[tokio::test]
async fn patch_scale_label_and_explain() {
    if !has_servers() {
        return;
    }
    let fixture = Fixture::start(false).await;
    fixture.kubectl(WEB, &["apply", "--server-side", "-f", "-"]).await;
    fixture.kubectl("", &["scale", "deployment", "web", "--replicas=3"]).await;
    let status = r#"{"status":{"readyReplicas":2}}"#;
    let patch = ["patch", "deployment", "web", "--subresource=status", "--type=merge", "-p", status];
    fixture.kubectl("", &patch).await;
    let ready = fixture.kubectl("", &["get", "deployment", "web", "--no-headers"]).await;
    assert!(ready.contains("2/3"), "{ready}");
    fixture.kubectl("", &["label", "deployment", "web", "team=blue"]).await;
    assert!(
        fixture.kubectl("", &["get", "deployments", "-l", "team=blue", "-o", "name"]).await.contains("web")
    );
    assert!(
        fixture.kubectl("", &["explain", "deployment.spec.replicas"]).await.contains("replicas <integer>")
    );
    let (ok, text) = fixture.try_kubectl(&WEB.replace("selector", "selektor"), &["create", "-f", "-"]).await;
    assert!(!ok && text.contains("unknown field \"spec.selektor\""), "{text}");
    let (ok, text) = fixture.try_kubectl("", &["get", "deployment", "nope"]).await;
    assert!(!ok && text.contains("deployments.apps \"nope\" not found"), "{text}");
}

#[tokio::test]
async fn jobs_end_namespaces_empty_and_own_kinds_are_served() {
    if !has_servers() {
        return;
    }
    let fixture = Fixture::start(true).await;
    let job = r#"
apiVersion: batch/v1
kind: Job
metadata: { name: once, namespace: other }
spec: { template: { spec: { restartPolicy: Never, containers: [{ name: a, image: b }] } } }
"#;
    let namespace = "{\"apiVersion\": \"v1\", \"kind\": \"Namespace\", \"metadata\": {\"name\": \"other\"}}";
    fixture.kubectl(namespace, &["create", "-f", "-"]).await;
    fixture.kubectl(job, &["apply", "-f", "-"]).await;
    fixture
        .kubectl("", &["-n", "other", "wait", "--for=condition=Complete", "job/once", "--timeout=20s"])
        .await;
    fixture.kubectl("", &["delete", "namespace", "other", "--timeout=20s"]).await;
    let (ok, text) = fixture.try_kubectl("", &["get", "namespace", "other"]).await;
    assert!(!ok && text.contains("not found"), "{text}");

    let definition = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: gadgets.example.com }
spec:
  group: example.com
  scope: Namespaced
  names: { plural: gadgets, singular: gadget, kind: Gadget }
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties: { spec: { type: object, required: [size], properties: { size: { type: integer, minimum: 1 } } } }
"#;
    fixture.kubectl(definition, &["apply", "-f", "-"]).await;
    fixture
        .kubectl("", &["wait", "--for=condition=Established", "crd/gadgets.example.com", "--timeout=10s"])
        .await;
    let gadget = |size: &str| {
        format!("apiVersion: example.com/v1\nkind: Gadget\nmetadata: {{ name: g }}\nspec: {{ {size} }}\n")
    };
    fixture.kubectl(&gadget("size: 2"), &["create", "-f", "-"]).await;
    assert!(fixture.kubectl("", &["get", "gadgets", "-o", "name"]).await.contains("gadget.example.com/g"));
    let (ok, text) =
        fixture.try_kubectl(&gadget("size: 0").replace("name: g", "name: h"), &["create", "-f", "-"]).await;
    assert!(!ok && text.contains("spec.size"), "{text}");
}
