//! The syntax tree of D: what was written and where. No name is resolved and no type is computed here; only what
//! cannot be parsed without it (which identifiers are type names) has been decided.
//!
//! Every node carries the [`Span`] of its own text, parentheses included. Trees are plain boxes.

use crate::span::{SourceId, Span};

/// A whole source text.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Program {
    /// In order of the text.
    pub items: Vec<Item>,
    /// Indices of the script arguments (`$1`, `$$1`) that the text used, sorted.
    pub args_used: Vec<u32>,
    /// The comments, in order, markers included; the formatter puts them back.
    pub comments: Vec<Span>,
}

/// Something at the outermost level.
// A program has few items; boxes would only be in the way of matching.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// Probes, predicate, actions.
    Clause(Clause),
    /// Variables, types.
    Declaration(Declaration),
    /// `inline T n = e;`
    Inline(Inline),
    /// `translator T < S *v > { … };`
    Translator(Translator),
    /// `provider p { … };`
    Provider(ProviderDecl),
    /// `#pragma D …` and the other control lines that mean something.
    Pragma(Pragma),
}

/// An identifier and its place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    /// Without sigils (`@`, `` ` ``, `$`).
    pub text: String,
    /// Its place.
    pub span: Span,
}

// ---------------------------------------------------------------------------------------------- clauses

/// `probe, probe /predicate/ { body }`
#[derive(Clone, Debug, PartialEq)]
pub struct Clause {
    /// At least one.
    pub probes: Vec<ProbeSpec>,
    /// Between the slashes.
    pub predicate: Option<Expr>,
    /// `None` where nothing is written; an empty block is `{}`. Both mean the default action.
    pub body: Option<Block>,
    /// From the first probe to the closing brace.
    pub span: Span,
}

/// One probe description, macros already replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeSpec {
    /// By number or by names.
    pub kind: ProbeSpecKind,
    /// Its text after macro replacement, as written otherwise.
    pub text: String,
    /// Its place.
    pub span: Span,
}

/// How a description names its probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeSpecKind {
    /// `123`
    Id(u32),
    /// `1-5`, both ends included.
    IdRange(u32, u32),
    /// `provider:module:function:name`; missing fields have filled from the right and are empty.
    Fields {
        /// Pattern; empty means any.
        provider: Field,
        /// Pattern; empty means any.
        module: Field,
        /// Pattern; empty means any.
        function: Field,
        /// Pattern; empty means any.
        name: Field,
    },
}

/// One field of a probe description: a glob (`* ? [set] [!set] \c`) kept as written.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Field {
    /// Empty matches anything.
    pub text: String,
    /// Its place; empty where the field is not written. The whole description's where a macro is inside.
    pub span: Span,
}

/// `{ … }`
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Block {
    /// In order; empty statements are kept out.
    pub stmts: Vec<Stmt>,
    /// Braces included.
    pub span: Span,
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Stmt {
    /// What it is.
    pub kind: StmtKind,
    /// Its place, the semicolon left out.
    pub span: Span,
}

/// The statements of D.
#[derive(Clone, Debug, PartialEq)]
pub enum StmtKind {
    /// `e;`
    Expr(Expr),
    /// `this int x;` inside a clause.
    Declaration(Declaration),
    /// `if (e) … else …`; a branch without braces is a block of one statement.
    If {
        /// The condition, its parentheses left out.
        cond: Expr,
        /// Taken when the condition is not 0.
        then: Block,
        /// `else if` is a block that holds one `If`.
        otherwise: Option<Block>,
    },
    /// `{ … }` on its own.
    Block(Block),
}

// ------------------------------------------------------------------------------------------ expressions

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Its place, with the parentheses around it.
    pub span: Span,
    /// How many pairs of parentheses are written around it; meaning nothing, kept for the formatter.
    pub parens: u16,
}

impl Expr {
    /// An expression without parentheses around it.
    pub fn new(kind: ExprKind, span: Span) -> Expr {
        Expr { kind, span, parens: 0 }
    }
}

/// The expressions of D.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// `12`, `0x1fUL`; also an integer macro (`$1`, `$target`) after replacement.
    Int(IntLit),
    /// `'a'`, `'ab'`: the bytes as a big-endian number; the type is `int`, or 64 bits wide above four bytes.
    Char(CharLit),
    /// `1.5`, `1e9f`
    Float(FloatLit),
    /// `"text"`, escapes replaced; also `$$1` after replacement. Not terminated; may hold any byte.
    String(Vec<u8>),
    /// `x`: a variable, enumerator, inline or built-in.
    Ident(String),
    /// `self->x`
    SelfVar(Name),
    /// `this->x`
    ThisVar(Name),
    /// `` `sym ``, `` mod`sym ``, `` pid123`lib`sym ``
    Symbol(Symbol),
    /// `@name[keys]`, `@`
    Aggregation(AggRef),
    /// `$1`, `$$1`, `$target`, as written; only where the parser was told to keep macros.
    Macro(Macro),
    /// `f(args)`
    Call {
        /// The function.
        name: Name,
        /// In order.
        args: Vec<Expr>,
    },
    /// `a[k1, k2]`: an associative array, array, pointer or string; at least one key.
    Index {
        /// What is indexed.
        base: Box<Expr>,
        /// In order.
        keys: Vec<Expr>,
    },
    /// `e.m`
    Member {
        /// The struct.
        base: Box<Expr>,
        /// The member.
        member: Name,
    },
    /// `e->m`
    Arrow {
        /// The pointer.
        base: Box<Expr>,
        /// The member.
        member: Name,
    },
    /// `-e`, `++e`, `e++`, …
    Unary {
        /// The operator.
        op: UnaryOp,
        /// Its operand.
        operand: Box<Expr>,
    },
    /// `a + b`, …
    Binary {
        /// The operator.
        op: BinaryOp,
        /// Place of the operator.
        op_span: Span,
        /// Left operand.
        left: Box<Expr>,
        /// Right operand.
        right: Box<Expr>,
    },
    /// `a = b` (`op` is `None`), `a += b`, …
    Assign {
        /// The operation that is combined with the assignment.
        op: Option<BinaryOp>,
        /// Place of the operator.
        op_span: Span,
        /// What is assigned to; any expression, the checker asks for an lvalue.
        target: Box<Expr>,
        /// The new value.
        value: Box<Expr>,
    },
    /// `c ? a : b`
    Ternary {
        /// The condition.
        cond: Box<Expr>,
        /// Value when it is not 0.
        then: Box<Expr>,
        /// Value when it is 0.
        otherwise: Box<Expr>,
    },
    /// `a, b`
    Comma {
        /// Evaluated first, its value dropped.
        left: Box<Expr>,
        /// The value.
        right: Box<Expr>,
    },
    /// `(T)e`
    Cast {
        /// The type.
        ty: Box<TypeName>,
        /// The operand.
        operand: Box<Expr>,
    },
    /// `sizeof e`
    SizeofExpr(Box<Expr>),
    /// `sizeof (T)`
    SizeofType(Box<TypeName>),
    /// `stringof e`, `stringof (e)`
    Stringof(Box<Expr>),
    /// `offsetof (T, m)`; nested members are several names.
    Offsetof {
        /// The struct or union.
        ty: Box<TypeName>,
        /// The path of members, at least one.
        members: Vec<Name>,
    },
    /// `xlate <T> (e)`
    Xlate {
        /// The type of the result.
        ty: Box<TypeName>,
        /// What is translated.
        operand: Box<Expr>,
    },
    /// Stands where no expression could be read; an error has been reported.
    Error,
}

/// How an integer was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// `12`
    Decimal,
    /// `017`
    Octal,
    /// `0x1f`
    Hex,
}

/// An integer constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntLit {
    /// Its value; the low 64 bits where it overflows.
    pub value: u64,
    /// How it was written: C gives decimal constants signed types only.
    pub base: Base,
    /// Has a `u` suffix.
    pub unsigned: bool,
    /// Number of `l` in the suffix: 0, 1 or 2.
    pub longs: u8,
    /// Does not fit in 64 bits; D_INT_OFLOW has been reported.
    pub overflow: bool,
    /// A negative macro argument (`-5` given for `$1`): the value is the magnitude.
    pub negative: bool,
}

/// A character constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CharLit {
    /// The bytes as a big-endian number.
    pub value: u64,
    /// How many bytes: 1 to 8.
    pub bytes: u8,
}

/// A floating-point constant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FloatLit {
    /// Its value, rounded to a double; with the suffix `f` to a float.
    pub value: f64,
    /// From its suffix.
    pub kind: FloatKind,
}

/// The suffix of a floating-point constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloatKind {
    /// None.
    Double,
    /// `f`
    Float,
    /// `l`
    LongDouble,
}

/// A symbol of the kernel, a module or a process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Symbol {
    /// What is before the last backquote: empty, `mod`, or `` pid123`lib ``, macros replaced.
    pub scope: String,
    /// What is after it.
    pub name: String,
}

/// A reference to an aggregation.
#[derive(Clone, Debug, PartialEq)]
pub struct AggRef {
    /// Without the `@`; empty for the unnamed one.
    pub name: String,
    /// Place of `@name`.
    pub name_span: Span,
    /// `None` without brackets.
    pub keys: Option<Vec<Expr>>,
}

/// A macro, where the parser keeps them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Macro {
    /// Without the sigil: `1`, `target`.
    pub name: String,
    /// Written with two dollar signs: replaced by a string.
    pub quoted: bool,
}

/// Operators with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    /// `+e`
    Plus,
    /// `-e`
    Neg,
    /// `!e`
    Not,
    /// `~e`
    BitNot,
    /// `*e`
    Deref,
    /// `&e`
    AddrOf,
    /// `++e`
    PreInc,
    /// `--e`
    PreDec,
    /// `e++`
    PostInc,
    /// `e--`
    PostDec,
}

/// Operators with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `%`
    Mod,
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `<<`
    Shl,
    /// `>>`
    Shr,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
    /// `==`
    Eq,
    /// `!=`
    Ne,
    /// `&`
    BitAnd,
    /// `^`
    BitXor,
    /// `|`
    BitOr,
    /// `&&`
    And,
    /// `^^`
    Xor,
    /// `||`
    Or,
}

impl UnaryOp {
    /// As it is written.
    pub fn text(self) -> &'static str {
        match self {
            UnaryOp::Plus => "+",
            UnaryOp::Neg => "-",
            UnaryOp::Not => "!",
            UnaryOp::BitNot => "~",
            UnaryOp::Deref => "*",
            UnaryOp::AddrOf => "&",
            UnaryOp::PreInc | UnaryOp::PostInc => "++",
            UnaryOp::PreDec | UnaryOp::PostDec => "--",
        }
    }
}

impl BinaryOp {
    /// As it is written.
    pub fn text(self) -> &'static str {
        match self {
            BinaryOp::Mul => "*",
            BinaryOp::Div => "/",
            BinaryOp::Mod => "%",
            BinaryOp::Add => "+",
            BinaryOp::Sub => "-",
            BinaryOp::Shl => "<<",
            BinaryOp::Shr => ">>",
            BinaryOp::Lt => "<",
            BinaryOp::Le => "<=",
            BinaryOp::Gt => ">",
            BinaryOp::Ge => ">=",
            BinaryOp::Eq => "==",
            BinaryOp::Ne => "!=",
            BinaryOp::BitAnd => "&",
            BinaryOp::BitXor => "^",
            BinaryOp::BitOr => "|",
            BinaryOp::And => "&&",
            BinaryOp::Xor => "^^",
            BinaryOp::Or => "||",
        }
    }
}

// ----------------------------------------------------------------------------------------- declarations

/// `specifiers declarator, declarator;`
#[derive(Clone, Debug, PartialEq)]
pub struct Declaration {
    /// Storage class, qualifiers, type.
    pub specs: DeclSpecs,
    /// Empty for `struct s { … };`.
    pub declarators: Vec<Declarator>,
    /// Its place, the semicolon left out.
    pub span: Span,
}

/// What stands before the declarators.
#[derive(Clone, Debug, PartialEq)]
pub struct DeclSpecs {
    /// At most one.
    pub storage: Option<(Storage, Span)>,
    /// `const`, `volatile`, `restrict`, `userland`.
    pub quals: Quals,
    /// The type.
    pub ty: TypeSpec,
    /// Its place.
    pub span: Span,
}

/// Storage classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Storage {
    /// `auto`
    Auto,
    /// `register`
    Register,
    /// `static`
    Static,
    /// `extern`
    Extern,
    /// `typedef`
    Typedef,
    /// `self`
    SelfVar,
    /// `this`
    This,
}

/// Type qualifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub struct Quals {
    /// `const`
    pub is_const: bool,
    /// `volatile`
    pub is_volatile: bool,
    /// `restrict`
    pub is_restrict: bool,
    /// `userland`: the pointer points into the traced process.
    pub is_userland: bool,
}

/// A type specifier and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeSpec {
    /// What it is.
    pub kind: TypeSpecKind,
    /// Its place.
    pub span: Span,
}

/// The type specifiers.
#[derive(Clone, Debug, PartialEq)]
pub enum TypeSpecKind {
    /// `unsigned long`, `void`, `string`, …
    Basic(Basic),
    /// `uint32_t`, `` vmlinux`size_t ``: a typedef or a type of a module.
    Named(Symbol),
    /// `struct s`, `` struct mod`s ``, `union { … }`
    Aggregate(AggregateSpec),
    /// `enum e`, `enum { A, B = 2 }`
    Enum(EnumSpec),
    /// No type is written (`self x;`, `const y`): C's old `int`; the checker decides.
    Implicit,
}

/// The types that keywords spell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Basic {
    /// `void`
    Void,
    /// `_Bool`
    Bool,
    /// `char`
    Char,
    /// `signed char`
    SChar,
    /// `unsigned char`
    UChar,
    /// `short`
    Short,
    /// `unsigned short`
    UShort,
    /// `int`
    Int,
    /// `unsigned int`
    UInt,
    /// `long`
    Long,
    /// `unsigned long`
    ULong,
    /// `long long`
    LongLong,
    /// `unsigned long long`
    ULongLong,
    /// `float`
    Float,
    /// `double`
    Double,
    /// `long double`
    LongDouble,
    /// D's `string`
    String,
}

/// `struct` or `union`.
#[derive(Clone, Debug, PartialEq)]
pub struct AggregateSpec {
    /// `union`.
    pub is_union: bool,
    /// Its tag.
    pub tag: Option<Tag>,
    /// `None` for a reference.
    pub members: Option<Vec<MemberDecl>>,
}

/// The tag of a struct, union or enum; the scope is a module's name or empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Scope and name.
    pub symbol: Symbol,
    /// Its place.
    pub span: Span,
}

/// `specifiers declarator : width, …;` inside a struct or union.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberDecl {
    /// Without storage class.
    pub specs: DeclSpecs,
    /// Empty for an anonymous struct or union.
    pub declarators: Vec<MemberDeclarator>,
    /// Its place.
    pub span: Span,
}

/// One member.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberDeclarator {
    /// Its name is `None` for an unnamed bit-field.
    pub declarator: Declarator,
    /// Width of a bit-field.
    pub width: Option<Expr>,
}

/// `enum`.
#[derive(Clone, Debug, PartialEq)]
pub struct EnumSpec {
    /// Its tag.
    pub tag: Option<Tag>,
    /// `None` for a reference.
    pub enumerators: Option<Vec<Enumerator>>,
}

/// `NAME = value`
#[derive(Clone, Debug, PartialEq)]
pub struct Enumerator {
    /// The name.
    pub name: Name,
    /// The value, if written.
    pub value: Option<Expr>,
}

/// What turns the specifiers' type into the declared one.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Declarator {
    /// `None` in type names and unnamed parameters.
    pub name: Option<Name>,
    /// From the specifiers' type outward: apply the first to it, the second to the result, and so on. So
    /// `int *a[3]` is `[Pointer, Array(3)]` and `int (*f)(void)` is `[Function, Pointer]`.
    pub derivations: Vec<Derivation>,
    /// Its place; empty where nothing is written.
    pub span: Span,
}

/// One step from a type to another.
#[derive(Clone, Debug, PartialEq)]
pub enum Derivation {
    /// `*`, with the pointer's own qualifiers.
    Pointer(Quals),
    /// `[n]`, `[]`
    Array(Option<Box<Expr>>),
    /// `[int, string]`: D's associative array, or the parameters of an inline.
    Tuple(Vec<Param>),
    /// `(int, …)`
    Function {
        /// In order; `(void)` is none with `void_only`.
        params: Vec<Param>,
        /// Ends in `...`.
        varargs: bool,
        /// Written `(void)`.
        void_only: bool,
    },
}

/// A parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Storage class, qualifiers, type.
    pub specs: DeclSpecs,
    /// Name and derivations.
    pub declarator: Declarator,
    /// Its place.
    pub span: Span,
}

/// A type where no variable is declared: `(T)e`, `sizeof (T)`.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeName {
    /// Qualifiers and type.
    pub specs: DeclSpecs,
    /// Without a name.
    pub declarator: Declarator,
    /// Its place.
    pub span: Span,
}

/// `inline T n = e;`, `inline T f[T a, T b] = e;`: the declarator's last derivation is a [`Derivation::Tuple`] for
/// the latter.
#[derive(Clone, Debug, PartialEq)]
pub struct Inline {
    /// The type.
    pub specs: DeclSpecs,
    /// Name and parameters.
    pub declarator: Declarator,
    /// What it stands for.
    pub value: Expr,
    /// Its place.
    pub span: Span,
}

/// `translator T < S *v > { m = e; … };`
#[derive(Clone, Debug, PartialEq)]
pub struct Translator {
    /// The type of the result.
    pub output: TypeName,
    /// The type of the input.
    pub input: TypeName,
    /// The name of the input in the members' expressions.
    pub input_name: Name,
    /// In order.
    pub members: Vec<TranslatorMember>,
    /// Its place.
    pub span: Span,
}

/// `m = e;`
#[derive(Clone, Debug, PartialEq)]
pub struct TranslatorMember {
    /// The member of the output.
    pub name: Name,
    /// Its value.
    pub value: Expr,
}

/// `provider p { probe n(args) : (args); … };`
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderDecl {
    /// The provider.
    pub name: Name,
    /// In order.
    pub probes: Vec<ProviderProbe>,
    /// Its place.
    pub span: Span,
}

/// `probe n(native args) : (translated args);`
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderProbe {
    /// As written: `__` stands for `-`.
    pub name: Name,
    /// The arguments as the program passes them.
    pub native: Vec<Param>,
    /// The arguments as D sees them; `None` where they are the native ones.
    pub translated: Option<Vec<Param>>,
    /// Its place.
    pub span: Span,
}

/// A control line.
#[derive(Clone, Debug, PartialEq)]
pub struct Pragma {
    /// What it asks for.
    pub kind: PragmaKind,
    /// The line from `#` to its last word.
    pub span: Span,
}

/// The control lines. `#line` and `# 1 "file"` only number lines and are not here (see [`crate::span`]); `#ident`
/// means nothing and is dropped.
#[derive(Clone, Debug, PartialEq)]
pub enum PragmaKind {
    /// `#pragma D option name=value`
    Option {
        /// The option.
        name: Name,
        /// `None` where no `=` is written.
        value: Option<Name>,
    },
    /// `#pragma D attributes Stable/Stable/Common NAME`, `… provider fc provider`
    Attributes {
        /// `Name/Data/Class`.
        attributes: Name,
        /// The rest of the words: an identifier, or `provider NAME COMPONENT`.
        subject: Vec<Name>,
    },
    /// `#pragma D binding "1.0" NAME`
    Binding {
        /// The version.
        version: Name,
        /// The identifier.
        name: Name,
    },
    /// `#pragma D depends_on class name`
    DependsOn {
        /// `provider`, `module` or `library`.
        class: Name,
        /// Its name.
        name: Name,
    },
    /// `#error text`, `#pragma D error text`: D_PRAGERR has been reported.
    Error(String),
}

/// A source text and its program: what one `-s` or `-n` makes.
#[derive(Clone, Debug, PartialEq)]
pub struct ParsedSource {
    /// The text.
    pub source: SourceId,
    /// Its program.
    pub program: Program,
}
