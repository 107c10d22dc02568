//! What caches keep: the paths that any rule, view or check reads.

use crate::expression::{Expression, Mixture};
use crate::service::Service;
use crate::shape::Step;
use crate::template::Template;

/// Gives each watch the paths that anything reads of its objects.
pub(super) fn prune(service: &mut Service) {
    let mut reads = Vec::new();
    for expression in every_expression(service) {
        reads.extend(expression.reads.iter().cloned());
    }
    for watch in &mut service.watches {
        for read in &reads {
            let path = match &watch.all {
                Some(all) if *all == read.root => read.path.split_first().map_or(&[][..], |(_, rest)| rest),
                _ if watch.name == read.root => &read.path[..],
                _ => continue,
            };
            let path: Vec<Step> = path.to_vec();
            // A bare name (`not pod`) asks whether there is an object, and reads nothing of it.
            if !path.is_empty() && !watch.reads.contains(&path) {
                watch.reads.push(path);
            }
        }
    }
}

fn every_expression(service: &Service) -> Vec<&Expression> {
    let mut all: Vec<&Expression> = service.lets.iter().map(|(_, expression)| expression).collect();
    for check in &service.checks {
        all.push(&check.condition);
        all.extend(check.each.iter().map(|each| &each.list));
        all.extend(check.pointer.iter().flat_map(Mixture::expressions));
        all.extend(check.detail.expressions());
    }
    for object in &service.objects {
        all.extend(&object.when);
        all.extend(object.template.expressions());
    }
    for watch in &service.watches {
        all.extend(&watch.filter);
        all.extend(&watch.order);
    }
    all.extend(service.lookups.iter().flat_map(|lookup| &lookup.get).flat_map(Mixture::expressions));
    for rule in &service.status.rules {
        all.extend(&rule.when);
        all.extend(rule.message.iter().flat_map(Mixture::expressions));
    }
    for (when, text) in &service.status.notes {
        all.push(when);
        all.extend(text.expressions());
    }
    all.extend(service.view.iter().flat_map(|view| view.template.expressions()));
    all.extend(service.adopt.iter().flat_map(Template::expressions));
    if let Some(update) = &service.update {
        all.extend(update.set.iter().map(|(_, expression)| expression));
        all.extend(update.patches.iter().flat_map(|(_, template)| template.expressions()));
    }
    all
}
