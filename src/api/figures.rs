//! The figures of each service type and each of its watches, read where they are kept.

use super::Served;
use crate::cluster::WatchHealth;
use crate::files::reread::Standing;
use crate::metrics::{
    Exposition,
    Kind::{Counter, Gauge},
};
use crate::monitor::MonitorState;
use crate::registry::Outcome;

/// What is known of a type's monitor, registration and leadership.
pub(super) fn of_types(page: &mut Exposition, services: &[Served]) {
    let mut each = |name, kind, help, value: &dyn Fn(&Served, &MonitorState) -> u64| {
        let mut family = page.family(name, kind, help);
        for served in services {
            let service_type = &served.provider().service.service_type;
            family.figure(&[("service_type", service_type)], value(served, &served.monitor.borrow()));
        }
    };
    let owed = "Instances of which an event is still to be delivered.";
    each("mapwright_events_owed", Gauge, owed, &|_, monitor| count(monitor.owing));
    let delivered = "Events that were acknowledged.";
    each("mapwright_events_delivered_total", Counter, delivered, &|_, monitor| monitor.delivered);
    let failed = "Attempts to deliver an event that failed; each is repeated.";
    each("mapwright_event_failures_total", Counter, failed, &|_, monitor| monitor.failed);
    let rules = "Evaluations of status rules that failed.";
    each("mapwright_status_rule_errors", Gauge, rules, &|_, monitor| monitor.rule_errors);
    let leads = "1 where this process sends the events of the type.";
    each("mapwright_leads", Gauge, leads, &|served, _| served.leadership.borrow().leads.into());
    let registered = "1 where the registry took the last registration.";
    each("mapwright_registered", Gauge, registered, &|served, _| {
        matches!(served.registry.borrow().outcome, Outcome::Registered { .. }).into()
    });
    let mut depth = page.family("mapwright_queue_depth", Gauge, "Work of the monitor that is under way.");
    for served in services {
        let (service_type, monitor) = (&served.provider().service.service_type, served.monitor.borrow());
        for (queue, length) in [("chores", monitor.queued), ("events", monitor.sending)] {
            depth.figure(&[("service_type", service_type), ("queue", queue)], length);
        }
    }
}

/// What is known of each watch, and of the store that it fills.
pub(super) fn of_watches(page: &mut Exposition, services: &[Served]) {
    let watches: Vec<(String, WatchHealth)> = services
        .iter()
        .map(Served::provider)
        .flat_map(|provider| {
            let service_type = provider.service.service_type.clone();
            provider.watch_health().into_iter().map(move |watch| (service_type.clone(), watch))
        })
        .collect();
    let mut each = |name, kind, help, value: &dyn Fn(&WatchHealth) -> f64| {
        let mut family = page.family(name, kind, help);
        for (service_type, watch) in &watches {
            let labels = [("service_type", service_type.as_str()), ("watch", &watch.key.to_string())];
            family.figure(&labels, value(watch));
        }
    };
    let age = "Time since the API server last gave a sign of life on a watch.";
    each("mapwright_watch_age_seconds", Gauge, age, &|watch| watch.age.as_secs_f64());
    let synced = "1 where the watch has read a complete list.";
    each("mapwright_watch_synced", Gauge, synced, &|watch| f64::from(u8::from(watch.synced)));
    let lists = "Complete lists that the watch has read.";
    each("mapwright_watch_lists_total", Counter, lists, &|watch| watch.lists as f64);
    let skipped = "Objects of the watch that were malformed and left out.";
    each("mapwright_watch_skipped_total", Counter, skipped, &|watch| watch.skipped as f64);
    let objects = "Objects that the watch's store holds.";
    each("mapwright_store_objects", Gauge, objects, &|watch| watch.objects as f64);
    let bytes = "What those objects take, as texts.";
    each("mapwright_store_bytes", Gauge, bytes, &|watch| watch.bytes as f64);
}

fn count(number: usize) -> u64 {
    number.try_into().unwrap_or(u64::MAX)
}

/// What became of changed certificates and tokens.
pub(super) fn of_files(page: &mut Exposition, standings: &[(&'static str, Standing)]) {
    let mut each = |name, kind, help, value: &dyn Fn(&Standing) -> u64| {
        let mut family = page.family(name, kind, help);
        for (of, standing) in standings {
            family.figure(&[("files", of)], value(standing));
        }
    };
    let taken = "Changes of files that were taken into use.";
    each("mapwright_files_taken_total", Counter, taken, &|files| files.taken);
    let refusals = "Changes of files that were refused.";
    each("mapwright_files_refused_total", Counter, refusals, &|files| files.refused);
    let refused = "1 while files are refused, and older ones in use.";
    each("mapwright_files_refused", Gauge, refused, &|files| files.complaint.is_some().into());
}
