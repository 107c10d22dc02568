//! Pages as headings, fences, tables and links: as much of Markdown as our pages use.

/// One page.
pub(crate) struct Page {
    /// Its name from the root of the repository.
    pub(crate) name: String,
    pub(crate) headings: Vec<Heading>,
    pub(crate) fences: Vec<Fence>,
    /// The lines outside fences, each with its number and the heading above it.
    pub(crate) lines: Vec<Line>,
}

pub(crate) struct Heading {
    pub(crate) title: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Fence {
    pub(crate) line: usize,
    pub(crate) section: String,
    pub(crate) language: String,
    /// What stands behind the language: `file=web.yaml`, `run`.
    pub(crate) words: Vec<String>,
    pub(crate) text: String,
}

pub(crate) struct Line {
    pub(crate) number: usize,
    pub(crate) section: String,
    pub(crate) text: String,
}

/// A link, with the text that is shown.
pub(crate) struct Link {
    pub(crate) line: usize,
    pub(crate) section: String,
    pub(crate) shown: String,
    pub(crate) target: String,
}

impl Page {
    pub(crate) fn parse(name: &str, text: &str) -> Self {
        let mut page =
            Self { name: name.to_owned(), headings: Vec::new(), fences: Vec::new(), lines: Vec::new() };
        let mut open: Option<(String, Fence)> = None;
        for (number, line) in text.lines().enumerate().map(|(index, line)| (index + 1, line)) {
            let section = page.headings.last().map(|heading| heading.title.clone()).unwrap_or_default();
            if let Some((marks, fence)) = &mut open {
                if line.trim() == marks {
                    page.fences.extend(open.take().map(|(_, fence)| fence));
                } else {
                    fence.text.push_str(line);
                    fence.text.push('\n');
                }
                continue;
            }
            let marks = line.chars().take_while(|c| *c == '`').count();
            if marks >= 3 {
                let mut words = line[marks..].split_whitespace().map(str::to_owned);
                let language = words.next().unwrap_or_default();
                let words = words.collect();
                open = Some((
                    "`".repeat(marks),
                    Fence { line: number, section, language, words, text: String::new() },
                ));
                continue;
            }
            let level = line.chars().take_while(|c| *c == '#').count();
            if level > 0 && line[level..].starts_with(' ') {
                page.headings.push(Heading { title: line[level..].trim().to_owned() });
            }
            page.lines.push(Line { number, section, text: line.to_owned() });
        }
        assert!(open.is_none(), "{name}: a fence is not closed");
        page
    }

    /// The cells of the table rows below a heading, without the head.
    pub(crate) fn rows(&self, section: &str) -> Vec<Vec<String>> {
        let lines = self.lines.iter().filter(|line| line.section == section && line.text.starts_with('|'));
        lines.skip(2).map(|line| cells(&line.text)).collect()
    }

    pub(crate) fn links(&self) -> Vec<Link> {
        let mut links = Vec::new();
        for line in &self.lines {
            let mut rest = line.text.as_str();
            while let Some((before, after)) = rest.split_once("](") {
                let Some((target, behind)) = after.split_once(')') else { break };
                let shown = before.rsplit_once('[').map_or("", |(_, shown)| shown);
                links.push(Link {
                    line: line.number,
                    section: line.section.clone(),
                    shown: shown.to_owned(),
                    target: target.to_owned(),
                });
                rest = behind;
            }
        }
        links
    }

    /// The anchors of the headings, as GitHub makes them.
    pub(crate) fn anchors(&self) -> Vec<String> {
        self.headings.iter().map(|heading| anchor(&heading.title)).collect()
    }
}

impl Fence {
    /// The value of a word such as `file=web.yaml`.
    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        self.words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    pub(crate) fn is(&self, word: &str) -> bool {
        self.words.iter().any(|own| own == word)
    }
}

fn anchor(title: &str) -> String {
    let kept = title.to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The cells of one row; `\|` is a bar inside a cell.
fn cells(row: &str) -> Vec<String> {
    let marked = row.trim().trim_matches('|').replace("\\|", "\u{1}");
    marked.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect()
}

/// The text of a cell without the quotes of code.
pub(crate) fn code(cell: &str) -> &str {
    cell.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')).unwrap_or(cell)
}

#[test]
fn a_page_is_taken_apart() {
    let text = "# Title\n\nSee [`a`](b.rs) and [c](d.md#e-f).\n\n## Two `x`\n\n| k | v |\n| - | - |\n\
                | `a \\| b` | 1 |\n\n```toml mapping file=x\na = 1\n```\n";
    let page = Page::parse("p.md", text);
    assert_eq!(page.anchors(), ["title", "two-x"]);
    assert_eq!(page.rows("Two `x`"), [["`a | b`", "1"]]);
    let links: Vec<String> =
        page.links().iter().map(|link| format!("{} {}", link.shown, link.target)).collect();
    assert_eq!(links, ["`a` b.rs", "c d.md#e-f"]);
    let [fence] = page.fences.as_slice() else { panic!("one fence") };
    assert_eq!((fence.line, fence.language.as_str(), fence.value("file")), (11, "toml", Some("x")));
    assert!(fence.is("mapping") && fence.section == "Two `x`" && fence.text == "a = 1\n");
}
