//! Certificates of an authority of the test's own, made by openssl.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Context, Failure, Result};
use crate::process::Scratch;

/// An authority, in a folder of its own.
#[derive(Debug)]
pub struct Authority {
    scratch: Scratch,
}

/// PEM texts of a certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    pub fn new(name: &str) -> Result<Self> {
        let scratch = Scratch::new("authority")?;
        let (certificate, key) = (scratch.join("ca.pem"), scratch.join("ca.key"));
        let subject = format!("/CN={name}");
        let usage = ["-addext", "keyUsage=critical,keyCertSign,cRLSign"];
        openssl(&[&["-subj", &subject], &usage[..], &out(&certificate, &key)].concat())?;
        Ok(Self { scratch })
    }

    /// The file of its certificate.
    pub fn file(&self) -> PathBuf {
        self.scratch.join("ca.pem")
    }

    /// A new pair for a subject, as `/CN=east`, and alternative names, as `DNS:localhost,URI:spiffe://a/b`.
    pub fn issue(&self, subject: &str, names: &str) -> Result<Pair> {
        let (certificate, key) = (self.scratch.join("new.pem"), self.scratch.join("new.key"));
        let (ca, ca_key) = (self.file(), self.scratch.join("ca.key"));
        let authority = ["-CA", text(&ca)?, "-CAkey", text(&ca_key)?];
        let alternative = format!("subjectAltName={names}");
        let basic = ["-addext", "basicConstraints=critical,CA:FALSE"];
        let mut arguments = [&["-subj", subject][..], &authority, &basic].concat();
        if !names.is_empty() {
            arguments.extend(["-addext", &alternative]);
        }
        arguments.extend(out(&certificate, &key));
        openssl(&arguments)?;
        Ok(Pair { certificate: fs::read_to_string(certificate)?, key: fs::read_to_string(key)? })
    }
}

impl Pair {
    /// Writes both, as `tls.crt` and `tls.key`, into a folder that is made where it is missing.
    pub fn write(&self, folder: &Path) -> Result<(PathBuf, PathBuf)> {
        fs::create_dir_all(folder)?;
        let (certificate, key) = (folder.join("tls.crt"), folder.join("tls.key"));
        fs::write(&certificate, &self.certificate)?;
        fs::write(&key, &self.key)?;
        Ok((certificate, key))
    }
}

fn out<'p>(certificate: &'p Path, key: &'p Path) -> [&'p str; 4] {
    ["-out", certificate.to_str().unwrap_or_default(), "-keyout", key.to_str().unwrap_or_default()]
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().ok_or_else(|| Failure::new("a path of the test is no text"))
}

/// `openssl req -x509` with a fresh key on the curve that everybody knows.
fn openssl(arguments: &[&str]) -> Result<()> {
    let mut command = Command::new("openssl");
    command.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]);
    let output = command.args(arguments).output().context("openssl has to be installed")?;
    match output.status.success() {
        true => Ok(()),
        false => Err(Failure::new(format!("openssl: {}", String::from_utf8_lossy(&output.stderr)))),
    }
}
