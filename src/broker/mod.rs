//! The broker's rules: topics, groups, offsets, locks, holds, delays.
