//! A layer of `tracing` that notes when our spans begin and end, and with which fields.

use std::fmt;

use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::{Span, Switch};

/// The layer. It does nothing until an exporter listens.
#[derive(Debug)]
pub struct Collector {
    tell: mpsc::Sender<Span>,
    switch: Switch,
}

/// A span that has not ended; none that the caller does not want to keep.
struct Open(Option<Span>);

/// Whether a span is one of ours: the libraries' own are their business.
#[must_use]
pub fn wants(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && metadata.target().starts_with("mapwright")
}

impl Collector {
    pub(super) fn new(tell: mpsc::Sender<Span>, switch: Switch) -> Self {
        Self { tell, switch }
    }
}

impl<S: Subscriber + for<'s> LookupSpan<'s>> tracing_subscriber::Layer<S> for Collector {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id).filter(|_| self.switch.is_on()) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let above = span.parent().and_then(|above| {
            let extensions = above.extensions();
            extensions
                .get::<Open>()
                .map(|open| open.0.as_ref().map(|span| (span.trace.clone(), span.id.clone())))
        });
        let kept = fields.0.shift_remove("unsampled").is_none();
        let (trace, parent) = match above {
            // A part of what is not kept is not kept.
            Some(None) => return drop(span.extensions_mut().replace(Open(None))),
            Some(Some((trace, parent))) => (trace, Some(parent)),
            None => {
                let trace = fields.take("trace").unwrap_or_else(|| super::Context::begin().trace);
                (trace, fields.take("parent"))
            }
        };
        let begun = now();
        let id = crate::clock::unique("span").simple().to_string()[..16].to_owned();
        let open = Span { trace, id, parent, name: span.name(), begun, ended: begun, fields: fields.0 };
        span.extensions_mut().replace(Open(kept.then_some(open)));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(Open(Some(open))) = span.extensions_mut().get_mut::<Open>() {
            let mut fields = Fields::default();
            values.record(&mut fields);
            open.fields.extend(fields.0);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(Open(Some(mut open))) = span.extensions_mut().remove::<Open>() else { return };
        open.ended = now();
        if self.tell.try_send(open).is_err() {
            self.switch.drop_one();
        }
    }
}

fn now() -> i128 {
    crate::clock::now().as_nanosecond()
}

#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn take(&mut self, name: &str) -> Option<String> {
        self.0.shift_remove(name)?.as_str().map(str::to_owned)
    }

    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}"));
    }
}
