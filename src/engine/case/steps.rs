//! A case of several steps: `steps.yaml`, from what a person writes to what is done.

use std::time::Duration;

use serde_json::Value as Json;

use crate::decode::{Decode, Decoder, Text, document, words};
use crate::diagnostic::Findings;
use crate::read::read;
use crate::source::{Kind, Source, Span, Tree};

document! {
    /// One step of `steps.yaml`. It has exactly one of these keys.
    pub struct StepForm {
        /// A request, and what is answered.
        request: Option<RequestForm>,
        /// Time that passes, such as `300ms`, `30s` or `5m`.
        after: Option<Text>,
        /// What pretended machines do from now on, in the place of earlier `stages`: a list as in sandbox/stages.
        stages: Option<Tree>,
        /// An object that somebody makes, or a list of them.
        create: Option<Tree>,
        /// A change that somebody makes by hand.
        patch: Option<PatchForm>,
        /// Objects that somebody deletes by hand.
        delete: Option<ChoiceForm>,
        /// What must hold now.
        expect: Option<ExpectForm>,
    }

    /// A request to the provider.
    pub struct RequestForm {
        method: Method,
        /// The path below `/api/v1alpha1`, with its query.
        path: Text,
        /// The body. Without it a POST sends the spec of the case, and a PATCH its patch.
        body: Option<Tree>,
        /// The code that is answered.
        code: Option<i64>,
        /// Members of the answer; null says that one is not there.
        answer: Option<Tree>,
    }

    /// Objects that somebody changes.
    pub struct PatchForm {
        /// Such as `v1/Pod`.
        kind: Text,
        /// The object of this name.
        name: Option<Text>,
        /// The objects with these labels, such as `app=web`. With neither, all of the kind.
        labels: Option<Text>,
        /// A merge patch; its `status` goes to where a status is written.
        change: Tree,
    }

    /// Objects of a kind.
    pub struct ChoiceForm {
        /// Such as `v1/Pod`.
        kind: Text,
        /// The object of this name.
        name: Option<Text>,
        /// The objects with these labels, such as `app=web`. With neither, all of the kind.
        labels: Option<Text>,
    }

    /// What must hold.
    pub struct ExpectForm {
        /// The instance that is meant; that of the case where absent.
        id: Option<Text>,
        /// The status that a GET answers.
        status: Option<Text>,
        /// The message beside it.
        message: Option<Text>,
        /// The statuses of all events of the instance so far, in their order; a repeated one counts once.
        path: Option<Vec<Text>>,
        /// How many objects there are.
        objects: Vec<CountForm>,
    }

    /// How many objects of a kind there are.
    pub struct CountForm {
        /// Such as `v1/Pod`.
        kind: Text,
        /// The objects with these labels, such as `app=web`; all of the kind where absent.
        labels: Option<Text>,
        count: i64,
    }
}

words! {
    /// What a request asks for.
    pub enum Method {
        /// Read.
        Get = "GET",
        /// Create.
        Post = "POST",
        /// Change.
        Patch = "PATCH",
        /// End.
        Delete = "DELETE",
    }
}

/// The steps of a case, and the file that they stand in.
#[derive(Clone, Debug)]
pub struct Steps {
    pub source: Source,
    pub steps: Vec<Step>,
}

/// One step.
#[derive(Clone, Debug)]
pub struct Step {
    pub span: Span,
    pub act: Act,
}

/// What is done in a step, or must hold.
#[derive(Clone, Debug)]
pub enum Act {
    Request(Request),
    After(Duration),
    /// Files of stages, in parts.
    Stages(Vec<(Source, Tree)>),
    Create(Vec<Json>),
    Patch(Choice, Json),
    Delete(Choice),
    Expect(Expect),
}

#[derive(Clone, Debug)]
pub struct Request {
    pub method: &'static str,
    pub path: String,
    pub body: Option<Json>,
    code: Option<Tree>,
    answer: Option<Tree>,
}

/// Some objects of a kind.
#[derive(Clone, Debug)]
pub struct Choice {
    pub api_version: String,
    pub kind: String,
    pub name: Option<String>,
    pub labels: String,
}

/// What is looked at.
#[derive(Clone, Debug)]
pub struct Expect {
    pub id: Option<String>,
    pub objects: Vec<Choice>,
    tree: Tree,
}

/// The longest time that passes in one step.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// A span of time as people write it: a whole number with `ms`, `s`, `m` or `h`.
pub fn span_of_time(text: &str) -> Option<Duration> {
    let at = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(at);
    let unit = match unit.trim() {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit).map(Duration::from_millis)
}

impl Request {
    /// What is expected of the answer, by the name under which it was seen.
    pub(super) fn expected(&self) -> impl Iterator<Item = (&'static str, &Tree)> {
        [("code", &self.code), ("answer", &self.answer)]
            .into_iter()
            .filter_map(|(name, tree)| Some((name, tree.as_ref()?)))
    }
}

impl Expect {
    /// What is expected, by the name under which it was seen.
    pub(super) fn expected(&self) -> impl Iterator<Item = (&str, &Tree)> {
        self.tree.entries().iter().map(|entry| (entry.key.as_str(), &entry.value))
    }
}

impl Steps {
    /// Reads the steps. None where a mistake was found.
    pub(super) fn load(source: Source, findings: &mut Findings) -> Option<Self> {
        let tree = read(&source, findings)?;
        let Kind::List(items) = &tree.kind else {
            findings.add(&source, &tree.span, "wrong-type", "steps.yaml is a list of steps");
            return None;
        };
        if items.is_empty() {
            findings.add(&source, &tree.span, "malformed-step", "there is no step");
        }
        let mut steps = Vec::new();
        for item in items {
            let form = StepForm::decode(item, &mut Decoder { source: &source, findings });
            let Some(form) = form else { continue };
            let mut reader = Reader { source: &source, tree: item, findings };
            steps.extend(reader.act(form).map(|act| Step { span: item.span.clone(), act }));
        }
        Some(Self { source, steps })
    }

    /// Whether any step says what must come of it.
    pub(super) fn expects(&self) -> bool {
        self.steps.iter().any(|step| match &step.act {
            Act::Request(request) => request.expected().next().is_some(),
            Act::Expect(_) => true,
            _ => false,
        })
    }
}

/// One step while it is read.
struct Reader<'r> {
    source: &'r Source,
    tree: &'r Tree,
    findings: &'r mut Findings,
}

impl Reader<'_> {
    fn act(&mut self, form: StepForm) -> Option<Act> {
        if self.tree.entries().len() != 1 {
            let message = "a step has one of `request`, `after`, `stages`, `create`, `patch`, `delete` and \
                           `expect`; write another step for what comes next";
            self.findings.add(self.source, &self.tree.span, "malformed-step", message);
            return None;
        }
        if let Some(request) = form.request {
            return self.request(request).map(Act::Request);
        }
        if let Some(after) = form.after {
            return self.time(&after).map(Act::After);
        }
        if let Some(stages) = form.stages {
            return Some(Act::Stages(vec![(self.source.clone(), stages)]));
        }
        if let Some(create) = form.create {
            return self.create(&create).map(Act::Create);
        }
        if let Some(PatchForm { kind, name, labels, change, .. }) = form.patch {
            return Some(Act::Patch(self.choice(&kind, name, labels)?, change.to_json()));
        }
        if let Some(ChoiceForm { kind, name, labels, .. }) = form.delete {
            return Some(Act::Delete(self.choice(&kind, name, labels)?));
        }
        let expect = form.expect?;
        let objects: Vec<Option<Choice>> =
            expect.objects.into_iter().map(|count| self.choice(&count.kind, None, count.labels)).collect();
        let tree = self.tree.get("expect")?.clone();
        let objects = objects.into_iter().collect::<Option<Vec<_>>>()?;
        Some(Act::Expect(Expect { id: expect.id.map(|id| id.value), objects, tree }))
    }

    fn request(&mut self, form: RequestForm) -> Option<Request> {
        if !form.path.value.starts_with('/') {
            let message = "the path begins with a slash: /COLLECTION/ID";
            self.findings.add(self.source, &form.path.span, "malformed-step", message);
            return None;
        }
        let tree = self.tree.get("request")?;
        Some(Request {
            method: form.method.word(),
            path: form.path.value,
            body: form.body.map(|body| body.to_json()),
            code: tree.get("code").cloned(),
            answer: form.answer,
        })
    }

    fn time(&mut self, text: &Text) -> Option<Duration> {
        // A day is as long as anybody waits, and as much as a case has time for.
        let time = span_of_time(&text.value).filter(|time| *time <= LONGEST);
        if time.is_none() {
            let message = "a time is a whole number with ms, s, m or h, up to 24h, such as 30s";
            self.findings.add(self.source, &text.span, "malformed-step", message);
        }
        time
    }

    fn create(&mut self, tree: &Tree) -> Option<Vec<Json>> {
        let trees = match &tree.kind {
            Kind::List(items) => items.as_slice(),
            _ => std::slice::from_ref(tree),
        };
        for tree in trees {
            let is_text = |key| tree.get(key).is_some_and(|value| value.as_str().is_some());
            if !is_text("apiVersion") || !is_text("kind") {
                let message = "an object has an apiVersion and a kind";
                self.findings.add(self.source, &tree.span, "no-kind", message);
                return None;
            }
        }
        Some(trees.iter().map(Tree::to_json).collect())
    }

    fn choice(&mut self, kind: &Text, name: Option<Text>, labels: Option<Text>) -> Option<Choice> {
        let Some((api_version, word)) = kind.value.rsplit_once('/') else {
            let message = format!("`{}` is no kind: write it as v1/Pod or apps/v1/Deployment", kind.value);
            self.findings.add(self.source, &kind.span, "malformed-step", message);
            return None;
        };
        Some(Choice {
            api_version: api_version.to_owned(),
            kind: word.to_owned(),
            name: name.map(|name| name.value),
            labels: labels.map(|labels| labels.value).unwrap_or_default(),
        })
    }
}
