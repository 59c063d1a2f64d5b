__asm__(".data\n.fill 283115520, 1, 7\n.text\n");
