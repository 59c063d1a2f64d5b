#if !__has_include("/etc/passwd")
#error "it is not there"
#endif
