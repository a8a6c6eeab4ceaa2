//! The NameServer's rules: routes, registrations, expiry.
