//! D text to AST with spans; diagnostics.
