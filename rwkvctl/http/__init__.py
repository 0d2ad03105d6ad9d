"""HTTP/1.1 over sockets: the server of daemon and engine, its admission, and who is at the other end."""
