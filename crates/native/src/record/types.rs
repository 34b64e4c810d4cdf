//! Where the kernel's structures have their members, from its own BTF: paths become the fetch arguments of kprobes.

use std::path::Path;

use btf_rs::{Btf, BtfType, Struct, Type};

/// The registers of a function's first arguments on x86-64, as kprobes name them (System V ABI, 3.2.3).
const REGISTERS: [&str; 6] = ["%di", "%si", "%dx", "%cx", "%r8", "%r9"];

/// The types of the running kernel.
pub(super) struct Types {
    btf: Btf,
}

/// What a path comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fetch {
    /// The fetch argument with its type, as `+16(%di):u64`.
    pub(super) text: String,
    /// Whether it is an address.
    pub(super) pointer: bool,
    /// Fetch arguments of pointers on the way; a null among them means that there is no value.
    pub(super) guards: Vec<String>,
}

/// Where a path has come to.
enum Place {
    /// In a register, or behind the fetch argument that loads it.
    Value(String),
    /// In memory: an offset in bits from where the value points.
    Memory(String, i64),
}

/// A place and its type there.
struct At {
    place: Place,
    kind: Type,
    /// Bits of a bit-field.
    bits: Option<u32>,
}

impl Types {
    /// Reads `/sys/kernel/btf/vmlinux` or a file like it; the error says why that cannot be.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let btf = Btf::from_bytes(&bytes).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self { btf })
    }

    /// Whether a structure has a member.
    pub(super) fn has(&self, structure: &str, member: &str) -> bool {
        self.structure(structure).is_some_and(|found| self.member(&found, member).is_some())
    }

    /// The fetch argument for `path` at the entry of `function`.
    ///
    /// A path begins with a parameter's name and goes on with members: `rq.curr.pid`; whether a member is a pointer or a part is the
    /// kernel's affair. `@TYPE:MEMBER` goes from a part to what it is a part of (`container_of`), `?` marks a pointer that may be null,
    /// and a last `#` asks for the unsigned number in hexadecimal.
    pub(super) fn fetch(&self, function: &str, path: &str) -> Option<Fetch> {
        let (path, hexadecimal) = path.strip_suffix('#').map_or((path, false), |path| (path, true));
        let mut words = path.split('.');
        let mut at = self.parameter(function, words.next()?)?;
        let mut guards = Vec::new();
        for (index, word) in path.split('.').enumerate() {
            // A word: NAME[?][@TYPE:MEMBER]…
            let (name, containers) = word.split_once('@').map_or((word, None), |(name, rest)| (name, Some(rest)));
            let (name, nullable) = name.strip_suffix('?').map_or((name, false), |name| (name, true));
            if index > 0 {
                at = self.step(at, name)?;
            }
            if nullable {
                guards.push(format!("{}:x64", load(&at.place)?));
            }
            for container in containers.into_iter().flat_map(|rest| rest.split('@')) {
                let (structure, member) = container.split_once(':')?;
                at = self.contain(at, structure, member)?;
            }
        }
        let (kind, pointer) = self.kind(&at, hexadecimal)?;
        let text = match &at.place {
            Place::Value(value) => value.clone(),
            Place::Memory(base, bits) => {
                let size = if at.bits.is_some() { 32 } else { 8 };
                format!("{:+}({base})", bits.div_euclid(size) * (size / 8))
            }
        };
        Some(Fetch { text: format!("{text}:{kind}"), pointer, guards })
    }

    /// The first argument of `function` that is called `name`.
    fn parameter(&self, function: &str, name: &str) -> Option<At> {
        let name = name.split(['?', '@']).next()?;
        let found = self.btf.resolve_types_by_name(function).ok()?;
        let function =
            found.iter().find_map(|kind| if let Type::Func(function) = kind { Some(function) } else { None })?;
        let Type::FuncProto(prototype) = self.btf.resolve_chained_type(function).ok()? else { return None };
        let index = prototype.parameters.iter().position(|known| self.is_called(known, name))?;
        let kind = self.plain(self.btf.resolve_chained_type(&prototype.parameters[index]).ok()?)?;
        Some(At { place: Place::Value((*REGISTERS.get(index)?).to_owned()), kind, bits: None })
    }

    fn is_called(&self, named: &dyn BtfType, name: &str) -> bool {
        self.btf.resolve_name(named).is_ok_and(|found| found == name)
    }

    /// The type without its names and qualifiers.
    fn plain(&self, mut kind: Type) -> Option<Type> {
        loop {
            kind = match &kind {
                Type::Typedef(_) | Type::Volatile(_) | Type::Const(_) | Type::Restrict(_) | Type::TypeTag(_) => {
                    self.btf.resolve_chained_type(kind.as_btf_type()?).ok()?
                }
                _ => return Some(kind),
            }
        }
    }

    fn structure(&self, name: &str) -> Option<Struct> {
        let found = self.btf.resolve_types_by_name(name).ok()?;
        found.into_iter().find_map(|kind| match kind {
            Type::Struct(found) | Type::Union(found) if !found.members.is_empty() => Some(found),
            _ => None,
        })
    }

    /// A member's offset in bits, its type and its bits if it is a bit-field; members of nameless parts count as the whole's.
    fn member(&self, structure: &Struct, name: &str) -> Option<(i64, Type, Option<u32>)> {
        for member in &structure.members {
            let offset = i64::from(member.bit_offset());
            let found = self.btf.resolve_name(member).unwrap_or_default();
            if found == name {
                let kind = self.plain(self.btf.resolve_chained_type(member).ok()?)?;
                return Some((offset, kind, member.bitfield_size().filter(|bits| *bits > 0)));
            }
            if found.is_empty()
                && let Some(Type::Struct(part) | Type::Union(part)) =
                    self.btf.resolve_chained_type(member).ok().and_then(|kind| self.plain(kind))
                && let Some((inner, kind, bits)) = self.member(&part, name)
            {
                return Some((offset + inner, kind, bits));
            }
        }
        None
    }

    /// What `at` points to, or what it is.
    fn target(&self, at: At) -> Option<(Place, Type)> {
        match at.kind {
            Type::Ptr(pointer) => {
                let kind = self.plain(self.btf.resolve_chained_type(&pointer).ok()?)?;
                // A declaration alone says nothing of the members.
                let kind = match kind {
                    Type::Fwd(forward) => Type::Struct(self.structure(&self.btf.resolve_name(&forward).ok()?)?),
                    kind => kind,
                };
                Some((Place::Memory(load(&at.place)?, 0), kind))
            }
            kind => Some((at.place, kind)),
        }
    }

    fn step(&self, at: At, name: &str) -> Option<At> {
        let (place, kind) = self.target(at)?;
        let (Type::Struct(structure) | Type::Union(structure)) = kind else { return None };
        let (offset, kind, bits) = self.member(&structure, name)?;
        let Place::Memory(base, before) = place else { return None };
        Some(At { place: Place::Memory(base, before + offset), kind, bits })
    }

    fn contain(&self, at: At, structure: &str, member: &str) -> Option<At> {
        let (place, _) = self.target(at)?;
        let structure = self.structure(structure)?;
        let (offset, _, _) = self.member(&structure, member)?;
        let Place::Memory(base, before) = place else { return None };
        Some(At { place: Place::Memory(base, before - offset), kind: Type::Struct(structure), bits: None })
    }

    /// The kprobe's name of a type, and whether it is an address.
    fn kind(&self, at: &At, hexadecimal: bool) -> Option<(String, bool)> {
        if let (Some(bits), Place::Memory(_, offset)) = (at.bits, &at.place) {
            return Some((format!("b{bits}@{}/32", offset.rem_euclid(32)), false));
        }
        let (signed, size) = match &at.kind {
            Type::Ptr(_) => return Some(("x64".to_owned(), true)),
            Type::Int(int) => (int.is_signed() && !int.is_bool(), int.size()),
            Type::Enum(kind) => (kind.is_signed(), kind.size()),
            _ => return None,
        };
        let letter = if hexadecimal {
            'x'
        } else if signed {
            's'
        } else {
            'u'
        };
        matches!(size, 1 | 2 | 4 | 8).then(|| (format!("{letter}{}", size * 8), false))
    }
}

/// The fetch argument of the value that stands there.
fn load(place: &Place) -> Option<String> {
    match place {
        Place::Value(value) => Some(value.clone()),
        Place::Memory(base, bits) => (bits % 8 == 0).then(|| format!("{:+}({base})", bits / 8)),
    }
}
