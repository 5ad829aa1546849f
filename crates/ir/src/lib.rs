//! The nouns: types, probes, signatures, programs, layouts.
