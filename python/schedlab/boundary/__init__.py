"""The boundary between schedlab and its users: errors, arguments, files, optional packages."""
