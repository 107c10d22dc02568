//! The `mapwright` program.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // kube, NATS and the registry share one crypto provider; the first one installed is the one.
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
    mapwright::cli::run()
}
