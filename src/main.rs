fn main() -> std::process::ExitCode {
    agentproto::cli::main()
}
