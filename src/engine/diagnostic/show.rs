//! How a mistake is shown: the line with the spot marked, what to do, and the lines that change.

use std::fmt::{self, Display, Formatter};

use super::{Diagnostic, Findings, Fix};

/// Findings for a terminal: with colour, or without.
pub struct Painted<'a> {
    findings: &'a Findings,
    colour: bool,
}

impl Findings {
    pub fn painted(&self, colour: bool) -> Painted<'_> {
        Painted { findings: self, colour }
    }
}

impl Display for Painted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (index, item) in self.findings.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            item.write(f, if self.colour { &COLOUR } else { &PLAIN })?;
        }
        Ok(())
    }
}

impl Display for Findings {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.painted(false).fmt(f)
    }
}

impl Display for Diagnostic {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.write(f, &PLAIN)
    }
}

/// The escape sequences that begin each part, and the one that ends it.
struct Paint {
    mistake: &'static str,
    message: &'static str,
    frame: &'static str,
    removed: &'static str,
    added: &'static str,
    end: &'static str,
}

const PLAIN: Paint = Paint { mistake: "", message: "", frame: "", removed: "", added: "", end: "" };
const COLOUR: Paint = Paint {
    mistake: "\x1b[1;31m",
    message: "\x1b[1m",
    frame: "\x1b[1;34m",
    removed: "\x1b[31m",
    added: "\x1b[32m",
    end: "\x1b[0m",
};

impl Diagnostic {
    fn write(&self, f: &mut Formatter<'_>, paint: &Paint) -> fmt::Result {
        let Paint { mistake, message, frame, end, .. } = paint;
        let last = self.fix.iter().map(|fix| fix.line + fix.removed.len().max(fix.added.len()));
        let gutter = " ".repeat(last.chain([self.position.line]).max().unwrap_or(0).to_string().len());
        let number = format!("{:>1$}", self.position.line, gutter.len());
        writeln!(f, "{mistake}error[{}]{end}{message}: {}{end}", self.code, printable(&self.message))?;
        writeln!(f, "{gutter}{frame}-->{end} {}:{}:{}", self.file, self.position.line, self.position.column)?;
        writeln!(f, "{gutter} {frame}|{end}")?;
        writeln!(f, "{frame}{number} |{end}{}", spaced(&self.line))?;
        let before = self.line.chars().take(self.position.column - 1);
        let pad: String = before.map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        writeln!(f, "{gutter} {frame}|{end} {pad}{mistake}{}{end}", "^".repeat(self.width))?;
        if let Some(help) = &self.help {
            writeln!(f, "{gutter} {frame}={end} help: {}", printable(help))?;
        }
        match &self.fix {
            Some(fix) => fix.write(f, gutter.len(), paint),
            None => Ok(()),
        }
    }
}

impl Fix {
    /// The lines that go with `-`, the lines that come with `+`, each under its number.
    fn write(&self, f: &mut Formatter<'_>, width: usize, paint: &Paint) -> fmt::Result {
        let Paint { removed, added, end, .. } = paint;
        for (index, line) in self.removed.iter().enumerate() {
            writeln!(f, "{removed}{:>width$} -{}{end}", self.line + index, spaced(line))?;
        }
        for (index, line) in self.added.iter().enumerate() {
            writeln!(f, "{added}{:>width$} +{}{end}", self.line + index, spaced(line))?;
        }
        Ok(())
    }
}

/// A line of a file behind its gutter; an empty one leaves no white space at the end.
fn spaced(line: &str) -> String {
    if line.is_empty() { String::new() } else { format!(" {}", printable(line)) }
}

/// What a file holds must not steer the terminal that shows it.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Help;
    use crate::source::Source;

    fn one(text: &str, word: &str) -> Findings {
        let source = Source::new("a.toml", text);
        let start = text.find(word).unwrap();
        let mut findings = Findings::default();
        let help = Some(Help::replace("write `b`", "b"));
        findings.add_with_help(&source, &(start..start + word.len()), "a-code", format!("not {word}"), help);
        findings
    }

    #[test]
    fn colour_is_there_only_where_it_is_asked_for_and_always_ends() {
        let findings = one("x = 1\ny = \"a\"\n", "\"a\"");
        let painted = findings.painted(true).to_string();
        assert!(painted.starts_with("\x1b[1;31merror[a-code]\x1b[0m"));
        for line in painted.lines().filter(|line| line.contains('\x1b')) {
            assert!(line.rfind("\x1b[0m") > line.rfind("\x1b[1") && line.contains("\x1b[0m"), "{line:?}");
        }
        let plain = "error[a-code]: not \"a\"\n --> a.toml:2:6\n  |\n2 | y = \"a\"\n  |      ^\n  = help: write `b`\n2 - y = \"a\"\n2 + y = \"b\"\n";
        assert_eq!(findings.to_string(), plain);
    }

    #[test]
    fn what_a_file_holds_does_not_steer_the_terminal() {
        let shown = one("y = \x1b[2Ja", "\x1b[2Ja").to_string();
        assert!(!shown.contains('\x1b') && shown.contains('\u{fffd}'), "{shown:?}");
    }
}
