//! What each answer of the registry leads to, and how long that takes.

use std::time::Duration;

use jiff::Timestamp;
use mapwright::registry::*;

fn now() -> Timestamp {
    "1994-11-06T08:49:00Z".parse().unwrap()
}

fn step(status: u16, body: &str) -> Step {
    next_step(
        &Answer::Replied {
            status,
            retry_after: None,
            body: body.to_owned(),
        },
        Some("p-1"),
        now(),
    )
}

fn patience_after(status: u16, retry_after: &str) -> Then {
    let answer = Answer::Replied {
        status,
        retry_after: Some(retry_after.to_owned()),
        body: String::new(),
    };
    next_step(&answer, None, now()).then
}

fn why(step: &Step) -> &str {
    match &step.outcome {
        Outcome::Refused { why } | Outcome::Unavailable { why } => why,
        other => panic!("no reason in {other:?}"),
    }
}

#[test]
fn an_accepted_registration_is_renewed_at_the_interval() {
    for status in [200, 201] {
        let expected = Outcome::Registered {
            id: Some("p-1".to_owned()),
        };
        assert_eq!(
            step(status, r#"{"id": "p-1"}"#),
            Step {
                outcome: expected,
                then: Then::AtTheInterval
            }
        );
    }
}

#[test]
fn an_answer_without_an_id_keeps_the_known_one() {
    assert_eq!(
        step(200, "").outcome,
        Outcome::Registered {
            id: Some("p-1".to_owned())
        }
    );
}

#[test]
fn another_id_is_an_error_that_names_both() {
    let step = step(200, r#"{"id": "p-2"}"#);
    assert_eq!(step.then, Then::AtTheInterval);
    assert!(
        why(&step).contains("p-1") && why(&step).contains("p-2"),
        "{step:?}"
    );
}

#[test]
fn a_conflict_and_other_refusals_wait_for_the_interval_and_keep_the_text() {
    for status in [400, 401, 403, 404, 409, 422] {
        let step = step(status, r#"{"detail":  "no such type"}"#);
        assert_eq!(step.then, Then::AtTheInterval, "{status}");
        assert!(why(&step).contains("no such type") && matches!(step.outcome, Outcome::Refused { .. }));
    }
}

#[test]
fn a_redirect_is_refused_and_says_what_to_set() {
    assert!(why(&step(308, "")).contains("DCM_REGISTRATION_URL"));
}

#[test]
fn faults_that_may_pass_back_off() {
    for status in [408, 425, 429, 500, 502, 503, 504] {
        assert_eq!(
            step(status, "").then,
            Then::BackOff {
                at_least: Duration::ZERO
            },
            "{status}"
        );
    }
    let failed = next_step(
        &Answer::Failed {
            why: "refused".to_owned(),
        },
        None,
        now(),
    );
    assert_eq!(
        failed.then,
        Then::BackOff {
            at_least: Duration::ZERO
        }
    );
}

#[test]
fn retry_after_is_read_as_seconds_and_as_a_date() {
    let cases = [
        ("7", 7),
        (" 120 ", 120),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 37),
        ("Sun, 06 Nov 1994 08:48:00 GMT", 0),
        ("soon", 0),
        ("-5", 0),
        ("99999999999", 3600),
    ];
    for (value, seconds) in cases {
        let expected = Then::BackOff {
            at_least: Duration::from_secs(seconds),
        };
        assert_eq!(patience_after(503, value), expected, "{value}");
    }
}

#[test]
fn a_long_answer_is_cut_before_it_reaches_the_log() {
    assert!(why(&step(400, &"ä".repeat(10_000))).chars().count() < 600);
}

#[test]
fn pauses_grow_from_one_second_to_sixty_and_never_beyond() {
    let longest = (1..50)
        .map(|failures| back_off_pause(failures, 1.0))
        .collect::<Vec<_>>();
    assert_eq!(back_off_pause(1, 0.0), Duration::from_secs(1));
    assert!(
        longest.is_sorted() && longest.last() == Some(&Duration::from_secs(60)),
        "{longest:?}"
    );
    assert!((1..50).all(|failures| back_off_pause(failures, 0.0) >= Duration::from_secs(1)));
}

#[test]
fn a_renewal_is_never_late() {
    let interval = Duration::from_secs(60);
    assert_eq!(renewal_pause(interval, 0.0), interval);
    assert_eq!(renewal_pause(interval, 1.0), Duration::from_secs(48));
}

#[test]
fn a_registration_leaves_out_what_is_not_set() {
    let registration = Registration {
        name: "k8s-east".to_owned(),
        display_name: None,
        service_type: "sample".to_owned(),
        schema_version: "v1alpha1".to_owned(),
        endpoint: "http://east:8080/api/v1alpha1/samples".to_owned(),
        operations: vec!["CREATE".to_owned()],
        metadata: Some(Metadata {
            region_code: Some("eu-1".to_owned()),
            ..Metadata::default()
        }),
    };
    let expected = serde_json::json!({
        "name": "k8s-east",
        "service_type": "sample",
        "schema_version": "v1alpha1",
        "endpoint": "http://east:8080/api/v1alpha1/samples",
        "operations": ["CREATE"],
        "metadata": { "region_code": "eu-1" },
    });
    assert_eq!(serde_json::to_value(registration).unwrap(), expected);
}
