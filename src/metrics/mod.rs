//! Plain counters.
