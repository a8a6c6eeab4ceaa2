//! Frames, headers, request and response codes and their typed fields.
