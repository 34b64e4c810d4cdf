fn main() {
    for path in std::env::args().skip(1) {
        match schedlab_replay::replay_file(std::path::Path::new(&path), None, None, None) {
            Ok(report) => {
                for difference in &report.differences {
                    println!(
                        "line {} {}: ours {} kernels {}\n   queue {:?}",
                        difference.line, difference.what, difference.ours, difference.kernels, difference.queue
                    );
                    for record in difference.recorded.iter().take(14) {
                        println!("      {record}");
                    }
                }
                println!(
                    "{path}: records {} tasks {} resync {} unexplained {} {:?}",
                    report.records, report.tasks, report.resynchronisations, report.unexplained, report.first_sights
                );
                println!("{:#?}", report.decisions);
                println!("{:?}", report.state);
            }
            Err(error) => println!("{path}: {error}"),
        }
    }
}
