"""What ``wholedoc bench`` measures: the speed of training and translating on this machine."""
