//! The event rules, one sentence a test; times are milliseconds since the start of the test.

use std::time::Duration;

use mapwright::ledger::*;

const WINDOW: u64 = 500;

/// A ledger, the receiver behind it, and a clock that only the test moves.
struct Scene {
    ledger: Ledger,
    now: u64,
    /// When, for whom, what; in the order of delivery.
    heard: Vec<(u64, String, String)>,
}

impl Scene {
    fn new() -> Self {
        Self { ledger: Ledger::new(ms(WINDOW)), now: 0, heard: Vec::new() }
    }

    /// Moves the clock, delivering everything that falls due on the way.
    fn at(&mut self, time: u64) -> &mut Self {
        while let Some(deadline) = self.ledger.next_deadline().filter(|deadline| *deadline <= ms(time)) {
            self.now = self.now.max(deadline.as_millis() as u64);
            for outgoing in self.ledger.due(ms(self.now)) {
                self.hear(&outgoing);
                self.ledger.delivered(&outgoing);
            }
        }
        self.now = time;
        self
    }

    fn hear(&mut self, outgoing: &Outgoing) {
        self.heard.push((self.now, outgoing.id.clone(), outgoing.report.status.clone()));
    }

    fn sees(&mut self, id: &str, status: &str) -> &mut Self {
        self.sees_in(1, id, status)
    }

    fn sees_in(&mut self, life: u64, id: &str, status: &str) -> &mut Self {
        self.ledger.observe(ms(self.now), id, life, report(status));
        self.at(self.now)
    }

    fn loses(&mut self, life: u64, id: &str) -> &mut Self {
        self.ledger.gone(ms(self.now), id, life, report("DELETED"));
        self.at(self.now)
    }

    /// What was heard of one instance, as `time status` pairs.
    fn heard_of(&self, id: &str) -> Vec<(u64, &str)> {
        let own = self.heard.iter().filter(|(_, of, _)| of == id);
        own.map(|(time, _, status)| (*time, status.as_str())).collect()
    }

    fn due_one(&mut self) -> Outgoing {
        let mut due = self.ledger.due(ms(self.now));
        assert_eq!(due.len(), 1, "{due:?}");
        due.remove(0)
    }
}

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn report(status: &str) -> Report {
    let settling = matches!(status, "FAILED" | "UNKNOWN");
    Report { status: status.to_owned(), message: String::new(), settling }
}

fn delivered(status: &str) -> Delivered {
    let Report { status, message, settling } = report(status);
    Delivered { life: 1, status, message, settling, ends: false, revision: 7 }
}

#[test]
fn a_first_change_goes_out_at_once() {
    let mut scene = Scene::new();
    scene.sees("a", "PENDING");
    assert_eq!(scene.heard_of("a"), [(0, "PENDING")]);
}

#[test]
fn nothing_is_said_twice_while_nothing_changes() {
    let mut scene = Scene::new();
    scene.sees("a", "RUNNING").at(5_000).sees("a", "RUNNING").at(10_000);
    assert_eq!(scene.heard_of("a"), [(0, "RUNNING")]);
}

#[test]
fn a_new_message_alone_is_a_change() {
    let mut scene = Scene::new();
    scene.sees("a", "RUNNING").at(1_000);
    let message = "restarted twice".to_owned();
    scene.ledger.observe(ms(1_000), "a", 1, Report { message, ..report("RUNNING") });
    scene.at(1_000);
    assert_eq!(scene.heard_of("a"), [(0, "RUNNING"), (1_000, "RUNNING")]);
}

#[test]
fn changes_inside_a_window_become_the_last_of_them() {
    let mut scene = Scene::new();
    scene.sees("a", "PENDING").at(100).sees("a", "RUNNING").at(200).sees("a", "FAILED").at(5_000);
    assert_eq!(scene.heard_of("a"), [(0, "PENDING"), (700, "FAILED")]);
}

#[test]
fn a_change_inside_a_window_that_is_taken_back_is_never_said() {
    let mut scene = Scene::new();
    scene.sees("a", "PENDING").at(100).sees("a", "RUNNING").at(200).sees("a", "PENDING").at(5_000);
    assert_eq!(scene.heard_of("a"), [(0, "PENDING")]);
}

#[test]
fn a_window_never_outlasts_four_times_its_length() {
    let mut scene = Scene::new();
    for step in 0..60 {
        scene.at(step * 100).sees("a", if step % 2 == 0 { "PENDING" } else { "RUNNING" });
        scene.ledger.observe(
            ms(step * 100),
            "a",
            1,
            Report { message: step.to_string(), ..report("RUNNING") },
        );
    }
    let times = scene.heard_of("a").into_iter().map(|(time, _)| time).collect::<Vec<_>>();
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] <= 4 * WINDOW), "{times:?}");
    assert!(times.len() >= 3, "{times:?}");
}

#[test]
fn a_busy_instance_delays_no_other() {
    let mut scene = Scene::new();
    scene.sees("busy", "PENDING").at(100).sees("busy", "RUNNING").sees("calm", "PENDING");
    assert_eq!(scene.heard_of("calm"), [(100, "PENDING")]);
}

#[test]
fn an_unanswered_report_holds_back_its_own_instance_only() {
    let mut scene = Scene::new();
    scene.ledger.observe(ms(0), "a", 1, report("PENDING"));
    let in_flight = scene.due_one();
    scene.now = 1_000;
    scene.ledger.observe(ms(1_000), "a", 1, report("RUNNING"));
    scene.ledger.observe(ms(1_000), "b", 1, report("PENDING"));
    assert_eq!(scene.due_one().id, "b");
    scene.ledger.delivered(&in_flight);
    assert_eq!(scene.due_one().report.status, "RUNNING");
}

#[test]
fn running_error_running_within_a_window_is_no_event() {
    let mut scene = Scene::new();
    scene.sees("a", "RUNNING").at(2_000).sees("a", "FAILED").at(2_300).sees("a", "RUNNING").at(9_000);
    assert_eq!(scene.heard_of("a"), [(0, "RUNNING")]);
}

#[test]
fn running_error_is_one_failed_after_a_window() {
    let mut scene = Scene::new();
    scene.sees("a", "RUNNING").at(2_000).sees("a", "UNKNOWN").at(2_200).sees("a", "FAILED").at(9_000);
    assert_eq!(scene.heard_of("a"), [(0, "RUNNING"), (2_500, "FAILED")]);
}

#[test]
fn a_settling_status_waits_only_after_a_good_one() {
    let mut scene = Scene::new();
    scene.sees("new", "FAILED").at(2_000).sees("new", "UNKNOWN").at(2_000);
    assert_eq!(scene.heard_of("new"), [(0, "FAILED"), (2_000, "UNKNOWN")]);
}

#[test]
fn a_settling_status_comes_from_what_was_observed_last_also_where_that_was_never_delivered() {
    let mut scene = Scene::new();
    scene.sees("a", "PENDING").at(300).sees("a", "RUNNING");
    assert_eq!(scene.ledger.stands_at("a", 1), Some("RUNNING"), "it waits for the window of PENDING");
    // That window ends at 1000; what failed at 700 settles until 1200.
    scene.at(700).sees("a", "FAILED");
    assert_eq!(scene.ledger.stands_at("a", 1), Some("RUNNING"), "what settles has not been left for good");
    scene.at(1_100).sees("a", "RUNNING").at(5_000);
    assert_eq!(scene.heard_of("a"), [(0, "PENDING"), (1_100, "RUNNING")]);
    assert_eq!(scene.ledger.stands_at("a", 2), None, "another life comes from nothing");
}

#[test]
fn recovery_is_said_at_once() {
    let mut scene = Scene::new();
    scene.sees("a", "FAILED").at(2_000).sees("a", "RUNNING");
    assert_eq!(scene.heard_of("a"), [(0, "FAILED"), (2_000, "RUNNING")]);
}

#[test]
fn a_restored_status_is_not_said_again() {
    let mut scene = Scene::new();
    scene.ledger.restore("a", delivered("RUNNING"));
    scene.sees("a", "RUNNING").at(2_000);
    assert!(scene.heard.is_empty());
    scene.sees("a", "PENDING");
    assert_eq!(scene.ledger.last_delivered("a").map(|last| last.revision), Some(8));
}

#[test]
fn what_a_dead_process_sent_last_is_said_again_under_its_number_or_taken_back() {
    let attempt = || Delivered { revision: 8, ..delivered("FAILED") };
    let mut scene = Scene::new();
    for id in ["still", "back"] {
        scene.ledger.restore(id, delivered("RUNNING"));
        scene.ledger.restore_attempt(id, attempt());
    }
    scene.ledger.observe(ms(0), "still", 1, report("FAILED"));
    scene.ledger.observe(ms(0), "back", 1, report("RUNNING"));
    scene.at(2_000);
    // Receivers may have heard FAILED, so that RUNNING is news although it was the last that is known to be.
    assert_eq!(scene.heard_of("still"), [(0, "FAILED")]);
    assert_eq!(scene.heard_of("back"), [(0, "RUNNING")]);
    assert_eq!(scene.ledger.last_delivered("still").map(|last| last.revision), Some(8));
    assert_eq!(scene.ledger.last_delivered("back").map(|last| last.revision), Some(9));
}

#[test]
fn an_owed_end_goes_out_before_the_next_life_begins() {
    let mut scene = Scene::new();
    scene.sees("a", "RUNNING").at(100).loses(1, "a").at(200).sees_in(2, "a", "PENDING");
    assert_eq!(scene.heard_of("a"), [(0, "RUNNING"), (200, "DELETED"), (200, "PENDING")]);
}

#[test]
fn an_end_told_late_still_goes_first_while_its_successor_is_unheard() {
    let mut scene = Scene::new();
    scene.ledger.restore("a", delivered("RUNNING"));
    scene.ledger.observe(ms(0), "a", 2, report("PENDING"));
    scene.loses(1, "a");
    assert_eq!(scene.heard_of("a"), [(0, "DELETED"), (0, "PENDING")]);
}

#[test]
fn an_end_told_after_its_successor_was_heard_is_dropped() {
    let mut scene = Scene::new();
    scene.sees_in(2, "a", "PENDING").loses(1, "a").at(5_000);
    assert_eq!(scene.heard_of("a"), [(0, "PENDING")]);
}

#[test]
fn a_late_word_of_an_earlier_life_is_dropped() {
    let mut scene = Scene::new();
    scene.sees_in(2, "a", "PENDING").at(2_000).sees_in(1, "a", "RUNNING").at(5_000);
    assert_eq!(scene.heard_of("a"), [(0, "PENDING")]);
}

#[test]
fn many_short_lives_while_nothing_is_delivered_leave_two_reports() {
    let mut scene = Scene::new();
    scene.ledger.restore("a", delivered("RUNNING"));
    for life in 1..50 {
        scene.ledger.observe(ms(0), "a", life, report("PENDING"));
        scene.ledger.gone(ms(0), "a", life, report("DELETED"));
    }
    scene.ledger.observe(ms(0), "a", 50, report("PENDING"));
    scene.at(5_000);
    assert_eq!(scene.heard_of("a"), [(0, "DELETED"), (0, "PENDING")]);
}

#[test]
fn the_end_of_an_instance_that_was_never_heard_of_is_said_once() {
    let mut scene = Scene::new();
    scene.loses(1, "a").at(2_000).loses(1, "a").at(5_000);
    assert_eq!(scene.heard_of("a"), [(0, "DELETED")]);
}

#[test]
fn a_failed_report_is_tried_again_under_the_same_revision() {
    let mut scene = Scene::new();
    scene.ledger.observe(ms(0), "a", 1, report("RUNNING"));
    let first = scene.due_one();
    scene.ledger.failed(ms(0), &first);
    assert!(scene.ledger.due(ms(0)).is_empty(), "a failure is followed by a pause");
    scene.now = 5_000;
    assert_eq!(scene.due_one(), first);
}

#[test]
fn after_failures_the_newest_status_wins() {
    let mut scene = Scene::new();
    scene.ledger.observe(ms(0), "a", 1, report("PENDING"));
    let first = scene.due_one();
    scene.ledger.observe(ms(10), "a", 1, report("RUNNING"));
    scene.ledger.failed(ms(20), &first);
    scene.at(9_000);
    assert_eq!(scene.heard_of("a").iter().map(|(_, status)| *status).collect::<Vec<_>>(), ["RUNNING"]);
}

#[test]
fn a_return_is_said_when_the_failed_report_may_have_arrived() {
    let mut scene = Scene::new();
    scene.sees("a", "RUNNING");
    scene.now = 2_000;
    scene.ledger.observe(ms(2_000), "a", 1, report("PENDING"));
    let doubtful = scene.due_one();
    scene.ledger.failed(ms(2_000), &doubtful);
    scene.sees("a", "RUNNING").at(9_000);
    assert_eq!(scene.heard.len(), 2);
    let last = scene.ledger.last_delivered("a").unwrap();
    assert!(last.status == "RUNNING" && last.revision > doubtful.revision, "{last:?}");
}

#[test]
fn an_announced_report_stays_owed_and_says_that_it_was_announced() {
    let mut scene = Scene::new();
    scene.ledger.observe(ms(0), "a", 1, report("RUNNING"));
    let first = scene.due_one();
    scene.ledger.announced(ms(0), &first);
    scene.now = 5_000;
    assert!(scene.due_one().announced && scene.ledger.owes("a") && scene.ledger.owing() == 1);
}

#[test]
fn when_the_bus_is_back_no_pause_is_waited_out() {
    let mut scene = Scene::new();
    scene.ledger.observe(ms(0), "a", 1, report("RUNNING"));
    let first = scene.due_one();
    scene.ledger.failed(ms(0), &first);
    scene.now = 1_000;
    scene.ledger.retry_now();
    assert_eq!(scene.due_one(), first);
}

#[test]
fn a_flush_waits_for_neither_window_nor_settling() {
    let mut scene = Scene::new();
    scene.sees("a", "PENDING").sees("b", "RUNNING").at(100).sees("a", "RUNNING").sees("b", "FAILED");
    scene.ledger.flush();
    scene.at(100);
    assert_eq!(scene.heard_of("a"), [(0, "PENDING"), (100, "RUNNING")]);
    assert_eq!(scene.heard_of("b"), [(0, "RUNNING"), (100, "FAILED")]);
}

#[test]
fn an_answer_for_a_forgotten_id_does_not_bring_it_back() {
    let mut scene = Scene::new();
    scene.ledger.observe(ms(0), "a", 1, report("RUNNING"));
    let outgoing = scene.due_one();
    scene.ledger.forget("a");
    scene.ledger.delivered(&outgoing);
    assert!(scene.ledger.known().is_empty() && scene.ledger.next_deadline().is_none());
}

/// A small linear congruential generator: the same sequence on every machine.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// A scene in which answers are slow and attempts fail, some of them after they arrived.
struct RoughScene {
    observed: Vec<Option<(u64, Report, bool)>>,
    /// Revisions in order of arrival; a receiver drops one that it has seen.
    arrived: Vec<Vec<Outgoing>>,
    in_flight: Vec<Outgoing>,
    /// Whether attempts may fail.
    lossy: bool,
}

impl RoughScene {
    fn step(&mut self, ledger: &mut Ledger, dice: &mut Dice, now: u64) {
        let index = dice.roll(3) as usize;
        let id = index.to_string();
        let statuses = ["PENDING", "RUNNING", "FAILED", "UNKNOWN"];
        let (life, ended) =
            self.observed[index].as_ref().map_or((1, false), |(life, _, ended)| (*life, *ended));
        if dice.roll(8) == 0 && !ended {
            ledger.gone(ms(now), &id, life, report("DELETED"));
            self.observed[index] = Some((life, report("DELETED"), true));
        } else {
            let life = life + u64::from(ended);
            let next = report(statuses[dice.roll(4) as usize]);
            ledger.observe(ms(now), &id, life, next.clone());
            self.observed[index] = Some((life, next, false));
        }
        self.in_flight.extend(ledger.due(ms(now)));
        while !self.in_flight.is_empty() && dice.roll(3) > 0 {
            let outgoing = self.in_flight.remove(0);
            match if self.lossy { dice.roll(4) } else { 2 } {
                0 => ledger.failed(ms(now), &outgoing),
                1 => {
                    self.arrive(&outgoing);
                    ledger.failed(ms(now), &outgoing);
                }
                _ => self.deliver(ledger, outgoing),
            }
        }
    }

    fn deliver(&mut self, ledger: &mut Ledger, outgoing: Outgoing) {
        self.arrive(&outgoing);
        ledger.delivered(&outgoing);
    }

    fn arrive(&mut self, outgoing: &Outgoing) {
        let arrived = &mut self.arrived[outgoing.id.parse::<usize>().unwrap()];
        if !arrived.iter().any(|earlier| earlier.revision == outgoing.revision) {
            arrived.push(outgoing.clone());
        }
    }
}

#[test]
fn whatever_happens_two_quiet_windows_later_the_last_delivered_is_the_last_observed() {
    for seed in 0..400 {
        for arrived in rough_run(seed, true) {
            let ordered = arrived
                .windows(2)
                .all(|pair| pair[0].revision < pair[1].revision && pair[0].life <= pair[1].life);
            assert!(ordered, "seed {seed}: {arrived:?}");
        }
    }
}

#[test]
fn without_failures_nothing_is_ever_said_twice_in_a_row() {
    for seed in 0..400 {
        for arrived in rough_run(seed, false) {
            let repeats =
                |pair: &[Outgoing]| pair[0].life == pair[1].life && pair[0].report == pair[1].report;
            assert!(!arrived.windows(2).any(repeats), "seed {seed}: {arrived:?}");
        }
    }
}

/// Eighty random steps and two quiet windows; gives what arrived, an instance a list.
fn rough_run(seed: u64, lossy: bool) -> Vec<Vec<Outgoing>> {
    let (mut ledger, mut dice, mut now) = (Ledger::new(ms(WINDOW)), Dice(seed), 0);
    let mut rough =
        RoughScene { observed: vec![None; 3], arrived: vec![Vec::new(); 3], in_flight: vec![], lossy };
    for _ in 0..80 {
        now += dice.roll(400);
        rough.step(&mut ledger, &mut dice, now);
    }
    for quiet in 0..=(2 * WINDOW / 10) {
        for outgoing in std::mem::take(&mut rough.in_flight) {
            rough.deliver(&mut ledger, outgoing);
        }
        ledger.retry_now();
        rough.in_flight = ledger.due(ms(now + quiet * 10));
    }
    assert_eq!(ledger.owing(), 0, "seed {seed}");
    for (observed, arrived) in rough.observed.iter().zip(&rough.arrived) {
        let observed = observed.as_ref().map(|(_, report, _)| report);
        assert_eq!(arrived.last().map(|last| &last.report), observed, "seed {seed}");
    }
    rough.arrived
}
