//! Faults of our own, switched on by the fault harness to prove that it would notice them.
//!
//! `seeded!("no-uid-check")` is true in a debug build whose environment says `MAPWRIGHT_SEEDED=no-uid-check`.
//! In a release it is the constant `false`, and neither the names nor the variable are in the program.

/// Whether this fault is switched on.
macro_rules! seeded {
    ($fault:literal) => {
        cfg!(debug_assertions) && $crate::seeded::is($fault)
    };
}

#[cfg(debug_assertions)]
pub(crate) fn is(fault: &str) -> bool {
    use std::sync::OnceLock;
    static SEEDED: OnceLock<Option<String>> = OnceLock::new();
    SEEDED.get_or_init(|| std::env::var("MAPWRIGHT_SEEDED").ok()).as_deref() == Some(fault)
}

#[cfg(not(debug_assertions))]
pub(crate) const fn is(_fault: &str) -> bool {
    false
}
