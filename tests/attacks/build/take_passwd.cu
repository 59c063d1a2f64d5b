__asm__(".section .rodata\n.incbin \"/etc/passwd\"\n.text\n");
