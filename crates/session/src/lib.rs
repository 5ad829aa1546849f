//! Probity, the library: open, compile, attach, consume, stop.
