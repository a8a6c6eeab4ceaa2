//! Thin ractor shells around the rules.
