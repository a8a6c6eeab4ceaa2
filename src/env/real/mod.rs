//! The real world: the only code that touches sockets, files, mappings and the operating system's clock.
