//! The one binary: `metaq <command>`.

fn main() -> std::process::ExitCode {
    metaq::cli::main()
}
