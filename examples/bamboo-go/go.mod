module culm.example/bamboo-go

go 1.24
