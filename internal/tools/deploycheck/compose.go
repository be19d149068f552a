package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

// checkCompose loads a compose file with every profile and the given variables: its schema, its
// interpolation, and that the services, volumes and networks that it names are there. Of the files
// that it mounts, those beside it must exist; an env_file that is there as an example only
// (ajo.env.example for ajo.env) is not asked for.
func checkCompose(ctx context.Context, path string, variables []string) ([]string, error) {
	o, err := cli.NewProjectOptions([]string{path}, cli.WithEnv(variables), cli.WithProfiles([]string{"*"}), cli.WithoutEnvironmentResolution)
	if err != nil {
		return nil, err
	}
	project, err := o.LoadProject(ctx)
	if err != nil {
		return []string{err.Error()}, nil
	}
	var findings []string
	for _, s := range project.Services {
		findings = append(findings, checkService(s)...)
	}
	slices.Sort(findings)
	return findings, nil
}

// checkService is what a schema does not say: a pinned image, a way to tell that it is well, no
// rights that it does not need, and mounts that exist.
func checkService(s types.ServiceConfig) (findings []string) {
	find := func(format string, args ...any) {
		findings = append(findings, "service "+s.Name+": "+fmt.Sprintf(format, args...))
	}
	if name := s.Image[strings.LastIndex(s.Image, "/")+1:]; !strings.Contains(name, ":") || strings.HasSuffix(name, ":latest") {
		find("the image %q is not pinned", s.Image)
	}
	if !s.ReadOnly {
		find("read_only is not set")
	}
	if !slices.Contains(s.CapDrop, "ALL") {
		find("cap_drop is not ALL")
	}
	for _, e := range s.EnvFiles {
		if !exists(e.Path) && !exists(e.Path+".example") {
			find("env_file %s does not exist, nor %s.example", filepath.Base(e.Path), filepath.Base(e.Path))
		}
	}
	for _, v := range s.Volumes {
		if v.Type == types.VolumeTypeBind && !exists(v.Source) {
			find("the mounted %s does not exist", v.Source)
		}
	}
	for _, p := range s.Ports {
		if p.HostIP != "127.0.0.1" {
			find("port %s is published beyond loopback", p.Published)
		}
	}
	return findings
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
