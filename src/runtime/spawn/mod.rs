//! One way to start a child: by argv, in a session of its own, always drained, always gone
//! in the end. The runner, the harness, the AOI engine and the daemon all come through here.
