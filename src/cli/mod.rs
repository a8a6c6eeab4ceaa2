//! The commands of the one binary.
