//! The test bed by hand: `demo` shows the product at work, `build` and `selfcheck` are for whoever mends this.
#![expect(clippy::print_stdout, reason = "a program for people: its results go to standard output")]

mod demo;
mod selfcheck;

use std::process::ExitCode;

use mapwright_testbed::openapi::Types;
use mapwright_testbed::{Binaries, Context, ControlPlane, Failure, Result, Setup};

const USAGE: &str =
    "usage: testbed demo        a control plane, NATS, a registry and the provider, until Ctrl-C
       testbed against PROGRAM [ARGUMENT]...
                           the same, until the program ends that is given the provider's URL in PROVIDER
       testbed build       build the servers, if they are not there yet
       testbed selfcheck   start every part once and look whether it works
       testbed sbom        print the program's bill of materials
       testbed openapi F   write Kubernetes' types to F, which is schemas/kubernetes/types.pack";

fn main() -> ExitCode {
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error.into(), 1),
    };
    let code = runtime.block_on(run());
    // Not waiting: an interrupt may come while a thread builds servers for minutes.
    runtime.shutdown_background();
    code
}

async fn run() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["demo"] => finish(demo::run().await),
        ["against", program, ref rest @ ..] => finish(demo::against(program, rest).await),
        ["build"] => finish(build()),
        ["selfcheck"] => finish(selfcheck::run().await),
        ["sbom"] => finish(sbom()),
        ["openapi", file] => finish(openapi(file).await),
        // The self-check starts this program where a test starts the product.
        ["serve", ..] => finish(selfcheck::stand_in().await),
        _ => fail(&Failure::new(USAGE), 2),
    }
}

fn build() -> Result<()> {
    println!("{:#?}", Binaries::find()?);
    Ok(())
}

fn sbom() -> Result<()> {
    println!("{:#}", mapwright_testbed::sbom::document(std::path::Path::new("."))?);
    Ok(())
}

/// Writes Kubernetes' types as the product embeds them, from the API server of the test bed.
async fn openapi(file: &str) -> Result<()> {
    let setup = Setup { controller_manager: false, ..Setup::default() };
    let plane = ControlPlane::start_with(setup).await?;
    let pack = Types::of(&plane.client().await?).await?.pack();
    std::fs::write(file, &pack).context(format!("cannot write {file}"))?;
    println!("{file}: {} bytes", pack.len());
    Ok(())
}

fn finish(result: Result<()>) -> ExitCode {
    result.map_or_else(|failure| fail(&failure, 1), |()| ExitCode::SUCCESS)
}

#[expect(clippy::print_stderr, reason = "the one place where the program says why it ends")]
fn fail(failure: &Failure, code: u8) -> ExitCode {
    eprintln!("{failure}");
    ExitCode::from(code)
}
