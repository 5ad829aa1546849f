//! AST and environment to BPF object and layout.
