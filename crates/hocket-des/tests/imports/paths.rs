//! The files of a crate that a file names, read from its syntax: in `use` declarations including re-exports, and in paths
//! in the code and inside macros. Tests, documentation and visibilities do not count.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, File, Item, Macro, UseTree, VisRestricted};

/// The text of each file of a crate, by its path under `src`.
pub(crate) type Sources = BTreeMap<String, String>;

/// By file: the files that it names, each with the first path that does so.
pub(crate) type Imports = BTreeMap<String, BTreeMap<String, String>>;

type ModulePath = Vec<String>;

/// The modules and imports of a crate.
#[derive(Default)]
struct Crate {
    /// The file of each module, including inline modules.
    files: BTreeMap<ModulePath, String>,
    /// By module, then name: the path that the name was imported from.
    bound: BTreeMap<ModulePath, BTreeMap<String, ModulePath>>,
    mentions: Vec<Mention>,
    tests: BTreeSet<ModulePath>,
}

/// A path as written in a module.
struct Mention {
    module: ModulePath,
    path: ModulePath,
}

/// The files that each file of a crate names.
pub(crate) fn imports(sources: &Sources) -> Imports {
    let mut all = Crate::default();
    for (file, text) in sources {
        let syntax: File = syn::parse_file(text).unwrap_or_else(|error| panic!("{file}: {error}"));
        let module = module_of(file);
        all.files.insert(module.clone(), file.clone());
        Reader { all: &mut all, module, file }.visit_file(&syntax);
    }
    let mut imports = Imports::new();
    for Mention { module, path } in &all.mentions {
        let is_test = (0..=module.len()).any(|depth| all.tests.contains(&module[..depth]));
        let Some(named) = all.file_named(module, path).filter(|_| !is_test) else { continue };
        let from = &all.files[module];
        if named != from {
            let known = imports.entry(from.clone()).or_default();
            known.entry(named.clone()).or_insert_with(|| path.join("::"));
        }
    }
    imports
}

fn module_of(file: &str) -> ModulePath {
    let stem = file.strip_suffix(".rs").expect("a source is a .rs file");
    let mut module: ModulePath = stem.split('/').map(str::to_owned).collect();
    if matches!(module.last().map(String::as_str), Some("lib" | "main" | "mod")) {
        module.pop();
    }
    module
}

impl Crate {
    /// The file that defines what `path` names in `module`, following re-exports; `None` for a path that leaves the crate or
    /// names an item of the module itself.
    fn file_named(&self, module: &[String], path: &[String]) -> Option<&String> {
        let mut rest = path;
        let mut at = match rest.first()?.as_str() {
            "crate" => Vec::new(),
            "self" | "super" => module.to_vec(),
            _ if self.files.contains_key(&joined(module, &rest[0])) => module.to_vec(),
            _ => return None,
        };
        if matches!(rest[0].as_str(), "crate" | "self") {
            rest = &rest[1..];
        }
        while rest.first().is_some_and(|name| name == "super") {
            at.pop();
            rest = &rest[1..];
        }
        while let Some((name, further)) = rest.split_first() {
            let deeper = joined(&at, name);
            if self.files.contains_key(&deeper) {
                (at, rest) = (deeper, further);
                continue;
            }
            let bound = self.bound.get(&at).and_then(|names| names.get(name));
            return match bound {
                Some(stands_for) => {
                    let full: ModulePath = stands_for.iter().chain(further).cloned().collect();
                    // An item of another crate, named through this file.
                    self.file_named(&at, &full).or(self.files.get(&at))
                }
                None => self.files.get(&at),
            };
        }
        self.files.get(&at)
    }
}

fn joined(module: &[String], name: &str) -> ModulePath {
    module.iter().cloned().chain([name.to_owned()]).collect()
}

struct Reader<'a> {
    all: &'a mut Crate,
    module: ModulePath,
    file: &'a str,
}

impl Reader<'_> {
    fn mention(&mut self, path: ModulePath) {
        self.all.mentions.push(Mention { module: self.module.clone(), path });
    }

    fn read_use(&mut self, prefix: &[String], tree: &UseTree) {
        match tree {
            UseTree::Path(path) => {
                self.read_use(&joined(prefix, &path.ident.to_string()), &path.tree);
            }
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.read_use(prefix, tree));
            }
            UseTree::Glob(_) => self.mention(prefix.to_vec()),
            UseTree::Name(name) => self.bind(prefix, &name.ident.to_string(), None),
            UseTree::Rename(rename) => {
                self.bind(prefix, &rename.ident.to_string(), Some(rename.rename.to_string()));
            }
        }
    }

    fn bind(&mut self, prefix: &[String], name: &str, renamed: Option<String>) {
        let path = if name == "self" { prefix.to_vec() } else { joined(prefix, name) };
        let known_as = renamed.or_else(|| path.last().cloned()).expect("an import has a name");
        let names = self.all.bound.entry(self.module.clone()).or_default();
        // A module's own child is found without an import.
        if path.len() > 1 {
            names.insert(known_as, path.clone());
        }
        self.mention(path);
    }

    fn read_tokens(&mut self, tokens: TokenStream) {
        let mut path: ModulePath = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.mention(std::mem::take(&mut path));
                    }
                    path.push(name.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                other => {
                    self.mention(std::mem::take(&mut path));
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.read_tokens(group.stream());
                    }
                }
            }
        }
        self.mention(path);
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes: &[Attribute] = match item {
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Mod(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            _ => &[],
        };
        let is_test = attributes.iter().any(is_test);
        match item {
            Item::Mod(item) => {
                let module = joined(&self.module, &item.ident.to_string());
                if is_test {
                    self.all.tests.insert(module);
                } else if item.content.is_some() {
                    self.all.files.insert(module.clone(), self.file.to_owned());
                    let outer = std::mem::replace(&mut self.module, module);
                    visit::visit_item_mod(self, item);
                    self.module = outer;
                }
            }
            _ if is_test => {}
            Item::Use(item) if item.leading_colon.is_some() => {}
            Item::Use(item) => self.read_use(&[], &item.tree),
            _ => visit::visit_item(self, item),
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            self.mention(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'ast Macro) {
        self.read_tokens(called.tokens.clone());
    }

    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_vis_restricted(&mut self, _: &'ast VisRestricted) {}
}

fn is_test(attribute: &Attribute) -> bool {
    let condition = attribute.meta.require_list();
    condition.is_ok_and(|list| list.path.is_ident("cfg") && list.tokens.to_string() == "test")
}
