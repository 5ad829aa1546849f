//! eBPF as data: instructions, assembler, disassembler, objects, static checks, an interpreter for tests.
