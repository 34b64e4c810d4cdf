//! Writes the JSON Schema and the tables of the reference to where the documents have them: `cargo run -p schedlab-workloads --example
//! language`.

use std::path::Path;

use schedlab_workloads::rtapp;

fn main() -> std::io::Result<()> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    std::fs::write(docs.join("workload.schema.json"), rtapp::schema())?;
    let page = docs.join("workloads.md");
    let text = std::fs::read_to_string(&page)?;
    if let Some((head, rest)) = text.split_once("<!-- tables -->\n")
        && let Some((_, tail)) = rest.split_once("<!-- end of tables -->\n")
    {
        let tables = rtapp::reference();
        std::fs::write(&page, format!("{head}<!-- tables -->\n\n{tables}\n<!-- end of tables -->\n{tail}"))?;
    }
    Ok(())
}
