//! The files of every crate in the workspace import each other in one direction only. Circular dependencies between crates
//! need no test, since Cargo rejects them.

mod circles;
mod paths;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use circles::circles;
use paths::Sources;

#[test]
fn no_crate_has_circular_imports_between_its_files() {
    let crates = sources_of_all_crates();
    assert!(crates.contains_key("hocket-des"), "the crates are in the same folder as this one");
    let mut wrong = Vec::new();
    for (name, sources) in &crates {
        wrong.extend(circles(sources).into_iter().map(|circle| format!("{name}: {circle}")));
    }
    assert!(wrong.is_empty(), "files import each other in a circle:\n{}", wrong.join("\n"));
}

fn sources_of_all_crates() -> BTreeMap<String, Sources> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates lie in a folder");
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(crates).expect("the folder of crates can be read") {
        let entry = entry.expect("its entries can be read");
        let mut sources = Sources::new();
        read(&entry.path().join("src"), "", &mut sources);
        all.insert(entry.file_name().into_string().expect("crates have plain names"), sources);
    }
    all
}

fn read(folder: &Path, prefix: &str, sources: &mut Sources) {
    for entry in fs::read_dir(folder).expect("a folder of sources can be read") {
        let entry = entry.expect("its entries can be read");
        let name = entry.file_name().into_string().expect("sources have plain names");
        let (path, file) = (entry.path(), format!("{prefix}{name}"));
        if path.is_dir() {
            read(&path, &format!("{file}/"), sources);
        } else if name.ends_with(".rs") {
            sources.insert(file, fs::read_to_string(path).expect("a source is text"));
        }
    }
}
