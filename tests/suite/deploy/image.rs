//! The image: built by podman from the Containerfile, run as nobody, on a file system that cannot be written.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use mapwright_testbed::process::free_port;
use mapwright_testbed::{Http, Registry, Shared, eventually, secs};

use super::super::offline::{Folder, text};
use super::super::source::root;

/// Removed however the test ends.
struct Image<'p> {
    podman: &'p Path,
    name: String,
}

impl Drop for Image<'_> {
    fn drop(&mut self) {
        let _ = Command::new(self.podman)
            .args(["rm", "--force", "--ignore", "--time", "1", &self.container()])
            .output();
        let _ = Command::new(self.podman).args(["rmi", "--force", &self.name]).output();
    }
}

impl Image<'_> {
    fn container(&self) -> String {
        self.name.replace(['/', ':'], "-")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut podman = Command::new(self.podman);
        podman.args(["--runtime", "runc", "run", "--read-only", "--network=host"]);
        // Containers on a machine of tests cannot raise these.
        podman.args(["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]).args(arguments);
        podman
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut whole = vec!["--rm", self.name.as_str()];
        whole.extend(arguments);
        self.command(&whole).output().unwrap()
    }
}

/// The program and the libraries that it is linked with, as in an image.
fn program_folder(folder: &Path) {
    let program = Path::new(env!("CARGO_BIN_EXE_mapwright"));
    fs::create_dir_all(folder).unwrap();
    fs::copy(program, folder.join("mapwright")).unwrap();
    // As the Containerfile does: without any authority no client of TLS can be made.
    let authorities = Path::new("/etc/ssl/certs/ca-certificates.crt");
    if authorities.is_file() {
        let target = folder.join("etc/ssl/certs");
        fs::create_dir_all(&target).unwrap();
        fs::copy(authorities, target.join("ca-certificates.crt")).unwrap();
    }
    let linked = Command::new("ldd").arg(program).output().unwrap();
    for library in text(&linked.stdout).split_whitespace().filter(|word| word.starts_with('/')) {
        let target = folder.join(&library[1..]);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(library, target).unwrap();
    }
}

/// Whether containers can be built here: only a kernel and a user that may do so can.
fn podman() -> Option<std::path::PathBuf> {
    let podman = super::program("podman", &[])?;
    super::program("runc", &[])?;
    let works = Command::new(&podman).arg("info").output().is_ok_and(|output| output.status.success());
    if !works {
        mapwright_testbed::ground::leave_out_tool("a podman that works");
    }
    works.then_some(podman)
}

fn build(podman: &Path) -> Image<'_> {
    let folder = Folder::new("image").with_mappings();
    program_folder(&folder.0.join("program"));
    let image = Image { podman, name: format!("localhost/mapwright-test:{}", std::process::id()) };
    let mut command = Command::new(podman);
    command.args(["build", "--isolation=chroot", "--target", "prebuilt", "--build-arg", "PROGRAM=program"]);
    command.arg("-f").arg(root().join("deploy/Containerfile")).args(["-t", &image.name]).arg(&folder.0);
    let built = command.output().unwrap();
    assert!(built.status.success(), "{}", text(&built.stderr));
    image
}

#[tokio::test]
async fn the_image_serves_as_nobody_on_a_file_system_that_cannot_be_written() {
    let Some(podman) = podman() else { return };
    let image = build(&podman);
    let checked = image.run(&["check"]);
    assert!(checked.status.success(), "{}", text(&checked.stderr));
    assert!(text(&checked.stdout).contains("container: revision "), "{}", text(&checked.stdout));
    let inspected = Command::new(&podman)
        .args(["image", "inspect", "--format", "{{.User}}", &image.name])
        .output()
        .unwrap();
    assert_eq!(text(&inspected.stdout).trim(), "65532:65532");
    // There is no shell to be had.
    let shell = image.command(&["--rm", "--entrypoint", "/bin/sh", &image.name]).output().unwrap();
    assert!(!shell.status.success());

    let shared = Shared::get().await.unwrap();
    let namespace = shared.namespace("image").await.unwrap();
    let registry = Registry::start().await.unwrap();
    let port = free_port().unwrap();
    let kubeconfig = shared.kubeconfig();
    let folder = kubeconfig.parent().unwrap().to_str().unwrap();
    let mount = format!("{folder}:{folder}:ro");
    let container = image.container();
    let address = format!("127.0.0.1:{port}");
    let settings = [
        ("SP_NAME", "image-sp".to_owned()),
        ("SP_ENDPOINT", format!("http://{address}")),
        ("SP_SERVER_ADDRESS", address.clone()),
        ("DCM_REGISTRATION_URL", registry.url()),
        ("SP_NATS_URL", shared.nats.url()),
        ("SP_K8S_KUBECONFIG", kubeconfig.to_str().unwrap().to_owned()),
        ("SP_K8S_NAMESPACE", namespace.clone()),
        ("SP_K8S_EXTERNAL_SVC_TYPE", "LoadBalancer".to_owned()),
    ];
    let settings: Vec<String> = settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
    // The test's scratch folders are its user's alone; another user could not read the kubeconfig.
    let mut arguments =
        vec!["--detach", "--name", &container, "--user", "0:0", "--cap-drop=all", "--volume", &mount];
    settings.iter().for_each(|setting| arguments.extend(["--env", setting]));
    arguments.push(&image.name);
    let started = image.command(&arguments).output().unwrap();
    assert!(started.status.success(), "{}", text(&started.stderr));
    let http = Http::new(format!("http://{address}"));
    let ready = async || {
        let answer = http.get("/readyz").await.ok()?;
        (answer.status == 200).then_some(())
    };
    let ready = eventually("the container is ready", secs(60), ready).await;
    let log = Command::new(&podman).args(["logs", &container]).output().unwrap();
    assert!(ready.is_ok(), "{}{}", text(&log.stdout), text(&log.stderr));
}
