//! The published schema and reference are what the code says.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

use std::path::Path;

use schedlab_workloads::rtapp;

fn document(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name)).unwrap()
}

#[test]
fn the_schema_in_the_documents_is_current() {
    let told = "run: cargo run -p schedlab-workloads --example language";
    assert!(document("workload.schema.json") == rtapp::schema(), "{told}");
    assert!(
        document("workloads.md").contains(&format!("<!-- tables -->\n\n{}\n<!-- end", rtapp::reference())),
        "{told}"
    );
}

#[test]
fn the_schema_is_json_and_knows_every_event() {
    let schema: serde_json::Value = serde_json::from_str(&rtapp::schema()).unwrap();
    let patterns = schema["$defs"]["task"]["patternProperties"].as_object().unwrap();
    assert_eq!(patterns.len(), rtapp::EVENTS.len());
    assert_eq!(schema["required"][0], "tasks");
}
